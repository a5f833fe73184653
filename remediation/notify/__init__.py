"""How people are told: pure texts of alerts, and thin clients that carry them."""

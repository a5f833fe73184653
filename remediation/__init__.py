"""What to do about an incident: verbs as data and the plan under the headline."""

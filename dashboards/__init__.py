"""What people look at: the terminal text and the HTML report."""

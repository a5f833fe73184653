"""What looks alarming and is nothing: nobody may be taken out of service for one of these."""

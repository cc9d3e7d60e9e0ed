"""What a campaign, or several sides compared, answer."""

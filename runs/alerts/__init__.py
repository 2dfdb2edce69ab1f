"""What went wrong: rules judged every minute, the incidents that they open, silences, and their pages."""

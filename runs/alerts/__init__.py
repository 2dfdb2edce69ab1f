"""What went wrong: rules judged twice a minute, the incidents that they open, silences, and their pages."""

"""One Typer command per file; each body is a call of one public function."""

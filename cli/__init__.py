"""One Typer command per file; each body calls one public function."""

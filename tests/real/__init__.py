"""Real components that write real logs: see record.py. Runs inside `.venv-real`, made by install.sh."""

"""What people see of a bundle: the HTML report and the tables at the terminal."""

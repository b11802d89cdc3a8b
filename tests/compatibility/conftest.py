"""What is beside the test is not collected: the generator needs the code of its commit, and the rest are fixtures."""

collect_ignore_glob = ["make.py", "0.1/*"]

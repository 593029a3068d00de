"""`python -m kernelwright`: the command line, where its script is not on PATH."""

from kernelwright.cli.app import main

if __name__ == "__main__":
    main()

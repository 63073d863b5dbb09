//! Our tools for a command-line agent: a server of the Model Context Protocol over stdin and stdout.

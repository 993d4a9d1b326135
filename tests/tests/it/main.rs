//! Integration tests of Weft: one binary, a module per part.

mod links;
mod tidy;

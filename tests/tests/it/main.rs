//! Integration tests of Weft: one binary, a module per part.

mod devices;
mod links;
mod survey;
mod tidy;

//! Messages: how they are cut, announced, put together and matched.

pub mod matching;

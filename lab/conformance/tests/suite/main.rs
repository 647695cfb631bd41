//! Tests of the suite: reading, refusing, comparing. One program, so that the ops are compiled
//! once.

mod autocast;
mod capabilities;
mod equal;
mod long;
mod malformed;
mod mutated;
mod mutation;
mod own;
mod storage;

//! Tests of networks on the reference backend: one program, because compiling the ops takes longest.

mod architectures;
mod attention;
mod generate;
mod layers;
mod loader;
mod module;
mod optim;
mod train;

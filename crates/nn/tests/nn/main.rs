//! Tests of networks on the reference backend: one program, because compiling the ops takes longest.

mod init;
mod layers;
mod loader;
mod loss;
mod models;
mod module;
mod optim;
mod recurrent;
mod torch;
mod train;

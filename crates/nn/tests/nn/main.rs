//! Tests of networks on the reference backend: one program, because compiling the ops takes longest.

mod architectures;
mod attention;
mod csv;
mod dataset;
mod generate;
mod idx;
#[cfg(feature = "image")]
mod image;
mod layers;
mod loader;
mod module;
mod optim;
mod parity;
mod prefetch;
mod text;
#[cfg(feature = "tokenizers")]
mod tokenizer;
mod train;
mod transform;

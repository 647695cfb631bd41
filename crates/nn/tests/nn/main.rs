//! Tests of networks on the reference backend: one program, because compiling the ops dominates the
//! build time.

#[cfg(feature = "tokenizers")]
mod added_tokens;
mod amp;
mod architectures;
mod attention;
mod csv;
mod dataset;
mod double_buffer;
mod generate;
mod idx;
#[cfg(feature = "image")]
mod image;
mod init;
mod layers;
mod loader;
mod loss;
mod models;
mod module;
mod optim;
mod parity;
mod prefetch;
mod prepack;
mod recurrent;
mod text;
#[cfg(feature = "tokenizers")]
mod tokenizer;
mod torch;
mod train;
mod train_async;
mod train_step;
mod transform;

//! Networks: modules and layers, losses, optimisers, data in batches, a training loop.
//!
//! Everything is generic over the backend. Read [`module`] first: a network is a struct of layers
//! with `#[derive(Module)]`, and a [`Layer`] maps one tensor to one tensor.
//!
//! ```
//! use elinvar_nn::layers::Linear;
//! use elinvar_nn::{Backend, Generator, Layer, Module, Tensor};
//!
//! #[derive(Module)]
//! struct Mlp<B: Backend> {
//!     fc1: Linear<B>,
//!     fc2: Linear<B>,
//! }
//!
//! impl<B: Backend> Mlp<B> {
//!     fn new(g: &mut Generator, device: &B::Device) -> Self {
//!         Mlp { fc1: Linear::new(64, 32, g, device), fc2: Linear::new(32, 10, g, device) }
//!     }
//! }
//!
//! impl<B: Backend> Layer<B> for Mlp<B> {
//!     fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
//!         self.fc2.forward(&self.fc1.forward(x).relu())
//!     }
//! }
//! ```

// The derive macro writes `::elinvar_nn::Module`, here as everywhere.
extern crate self as elinvar_nn;

mod across;
mod buffer;
mod capture;
pub mod data;
pub mod decoder;
pub mod ema;
pub mod generate;
pub mod init;
mod layer;
pub mod layers;
pub mod loader;
pub mod loss;
pub mod models;
pub mod module;
pub mod optim;
mod own;
mod param;
mod reads;
pub mod train;

pub use across::AcrossShards;
pub use buffer::{Buffer, DrawnStream, Mode, RandomState};
pub use elinvar_derive::Module;
pub use elinvar_ops::Backend;
pub use elinvar_tensor::{Generator, Gradients, Tensor};
pub use layer::{Layer, Sequential};
pub use module::{LoadReport, Module, Part, Rename, StateDict, Strict, Visit};
pub use param::Param;
pub use reads::Reader;

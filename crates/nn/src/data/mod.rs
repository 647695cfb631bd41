//! Data for training: where samples come from, how they become batches, and in which order.
//!
//! * A [`Dataset`] has samples by index: [`Pairs`] and [`TensorDataset`] in memory, [`TokenBlocks`]
//!   of a text, or one of your own; the methods of the trait split, map and concatenate.
//! * A [`Loader`] puts them into batches by a [`Collate`], in an order that is the same on every
//!   machine, and may prefetch them on other threads ([`Prefetch`]). On their way to a device
//!   the next one is copied while a step computes ([`DeviceBatches`]).
//! * Readers: [`Csv`], [`idx`] (the format of MNIST), [`Text`]; with the feature `image` a folder
//!   of images; with the feature `tokenizers` every `tokenizer.json`.
//! * [`transform`]: random augmentation of images, as a function of seed, epoch and sample alone.
//! * [`digits`]: a data set inside of the library, so that a first training run needs no download.

mod collate;
mod csv;
mod dataset;
mod device_batches;
mod digits;
mod file;
pub mod idx;
#[cfg(feature = "image")]
mod image;
mod loader;
mod prefetch;
mod random;
mod sampler;
mod tensors;
mod text;
mod tokenize;
pub mod transform;
mod upload;

pub use self::csv::{Classes, Column, Csv, Missing, Table};
#[cfg(feature = "image")]
pub use self::image::{Fit, ImageFolder, ImageReader};
pub use collate::{Collate, Pad, Padded, Stack, Stackable};
pub use dataset::{Concat, Dataset, Mapped, Subset};
pub use device_batches::DeviceBatches;
pub use digits::{Digits, digits};
pub use loader::{Batch, Batches, HostBatch, Loader};
pub use prefetch::Prefetch;
pub use random::SampleRandom;
pub use sampler::Draw;
pub use tensors::{Pairs, TensorDataset};
pub use text::{Text, TokenBlocks, Tokens};
#[cfg(feature = "tokenizers")]
pub use tokenize::{BpeOptions, Tokenizer};
pub use tokenize::{Bytes, Chars, Encoded, Padding, Tokenize};
pub use upload::Upload;

//! Training: a [`Trainer`] takes batches from a [`Source`], computes their loss by an objective,
//! and steps an optimiser.
//!
//! The same seed gives the same weights, bit for bit: initial weights, order of the samples and
//! dropout come from seeds, and every op gives the same bits on every device. A run that is resumed
//! from its checkpoint ends with the weights of an uninterrupted one. The sums of the reports are
//! kept on the device, so that a step synchronises only if its numbers are read.
//!
//! ```
//! use elinvar_nn::data::digits;
//! use elinvar_nn::loader::Loader;
//! use elinvar_nn::models::{DigitsMlp, digit_pairs};
//! use elinvar_nn::optim::AdamW;
//! use elinvar_nn::train::{Classification, EarlyStopping, Trainer, evaluate};
//! use elinvar_nn::Generator;
//! use elinvar_reference::{Reference, ReferenceDevice};
//! use std::sync::Arc;
//!
//! let d = ReferenceDevice;
//! let (train, test) = digits()?.split(0, 0.2)?;
//! let (train, test) = (Arc::new(digit_pairs(&train)?), digit_pairs(&test)?);
//! let net = DigitsMlp::<Reference>::new(&mut Generator::new(0), &d);
//! let mut adam = AdamW::new(3e-3);
//! let loader = Loader::new(train, 64)?.shuffle(0);
//! let report = Trainer::new(&net, &mut adam, &loader, Classification::new())
//!     .epochs(2)
//!     .clip_grad_norm(1.0)
//!     .validate(|net: &DigitsMlp<Reference>| evaluate(net, &test, 64, &d))
//!     .early_stopping(EarlyStopping::new(3))
//!     .run(&d)?;
//! assert!(report.epochs[1].validation.as_ref().unwrap().accuracy().unwrap() > 0.8);
//! # Ok::<(), elinvar_core::Error>(())
//! ```

mod callback;
mod capture;
mod checkpoint;
mod early;
mod evaluate;
mod lockstep;
mod objective;
mod outbox;
mod pass;
mod recorded;
mod resume;
mod score;
mod sending;
mod shard;
mod shard_sum;
mod shards;
mod source;
mod state_shares;
mod train_step;
mod trainer;
mod validation;
mod workers;
mod zero;

pub use callback::{Callback, EpochReport, LossLater, Report, Step};
pub use checkpoint::{Checkpoint, Checkpoints, Position};
pub use early::EarlyStopping;
pub use evaluate::{Prediction, evaluate, evaluate_async, evaluate_on, predict, predict_async};
pub use objective::{Classification, Measured, NextToken, Objective};
pub use recorded::TensorBatch;
pub use score::Score;
pub use sending::{BUCKET_BYTES, FIRST_BUCKET_BYTES};
pub use source::{Feed, OnDemand, Source};
pub use train_step::TrainStep;
pub use trainer::Trainer;

//! `train digits --epochs 1 --batch 64 --seed 1`, as the program does it.

use elinvar::nn::data::digits;
use elinvar::nn::loader::Loader;
use elinvar::nn::models::{DigitsCnn, DigitsMlp, digit_pairs};
use elinvar::nn::optim::schedule::LinearLr;
use elinvar::nn::train::{Classification, Trainer};
use elinvar::nn::{Layer, Module};
use elinvar::{Any, Device, Error, Generator, Result, io};
use std::sync::Arc;

/// The networks.
pub const MODELS: [&str; 2] = ["mlp", "cnn"];
/// The devices, of which the first is compared with the program, and the others with the first.
pub const DEVICES: [&str; 2] = ["cpu", "reference"];

/// The SHA-256 of the weights after an epoch.
pub fn weights(model: &str, device: &str) -> Result<String> {
    const SEED: u64 = 1;
    let device = Device::parse(device)?;
    let g = &mut Generator::new(SEED);
    let (net, recipe): (Box<dyn Layer<Any>>, _) = match model {
        "mlp" => (Box::new(DigitsMlp::new(g, &device)), DigitsMlp::<Any>::RECIPE),
        "cnn" => (Box::new(DigitsCnn::new(g, &device)), DigitsCnn::<Any>::RECIPE),
        other => return Err(Error::argument(format!("no network is called {other}"))),
    };
    let (train, _) = digits()?.split(SEED, 0.2)?;
    let loader = Loader::new(Arc::new(digit_pairs(&train)?), 64)?.shuffle(SEED);
    let mut optimizer = recipe.optimizer(recipe.lr);
    let objective = Classification::new().label_smoothing(recipe.label_smoothing);
    Trainer::new(&net, &mut optimizer, &loader, objective)
        .epochs(1)
        .schedule(LinearLr::new(1.0, 0.0, loader.batches() as u64)?)
        .run(&device)?;
    Ok(io::weights_hash(&net.state_dict()?))
}

//! The networks that the program trains, and what a weights file says of them.

use crate::args::Model;
use elinvar::nn::models::{DigitsCnn, DigitsMlp, DigitsTransformer, Recipe};
use elinvar::nn::{Layer, Module, Visit};
use elinvar::{Any, Device, Error, Generator, Result, Tensor};
use std::collections::BTreeMap;

/// The part of the digits that is set aside for the test.
pub const TEST_PART: f64 = 0.2;

/// Keys of a weights file's metadata.
const DATA: &str = "data";
const MODEL: &str = "model";
const SEED: &str = "seed";

/// One of the networks.
pub enum Network {
    Mlp(DigitsMlp<Any>),
    Cnn(Box<DigitsCnn<Any>>),
    Transformer(Box<DigitsTransformer<Any>>),
}

impl Model {
    /// How it is trained.
    pub fn recipe(self) -> Recipe {
        match self {
            Model::Mlp => DigitsMlp::<Any>::RECIPE,
            Model::Cnn => DigitsCnn::<Any>::RECIPE,
            Model::Transformer => DigitsTransformer::<Any>::RECIPE,
        }
    }
}

impl Network {
    /// A new network, its weights by the seed.
    pub fn new(model: Model, seed: u64, device: &Device) -> Network {
        let g = &mut Generator::new(seed);
        match model {
            Model::Mlp => Network::Mlp(DigitsMlp::new(g, device)),
            Model::Cnn => Network::Cnn(Box::new(DigitsCnn::new(g, device))),
            Model::Transformer => Network::Transformer(Box::new(DigitsTransformer::new(g, device))),
        }
    }
}

impl Module<Any> for Network {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, Any>) {
        match self {
            Network::Mlp(net) => net.visit(name, visit),
            Network::Cnn(net) => net.visit(name, visit),
            Network::Transformer(net) => net.visit(name, visit),
        }
    }
}

impl Layer<Any> for Network {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Network::Mlp(net) => net.forward(x),
            Network::Cnn(net) => net.forward(x),
            Network::Transformer(net) => net.forward(x),
        }
    }
}

/// What a weights file says of itself.
pub fn describe(model: Model, seed: u64) -> BTreeMap<String, String> {
    [(DATA, "digits".to_string()), (MODEL, model.to_string()), (SEED, seed.to_string())]
        .map(|(key, value)| (key.to_string(), value))
        .into()
}

/// The network and the seed of a weights file; what the command line says goes before what the file
/// says.
pub fn described(
    metadata: &BTreeMap<String, String>,
    model: Option<Model>,
    seed: Option<u64>,
) -> Result<(Model, u64)> {
    let model =
        or_read(model, metadata, MODEL, |text| <Model as clap::ValueEnum>::from_str(text, false).ok())?;
    let seed = or_read(seed, metadata, SEED, |text| text.parse().ok())?;
    Ok((model, seed))
}

fn or_read<T>(
    given: Option<T>,
    metadata: &BTreeMap<String, String>,
    key: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T> {
    match (given, metadata.get(key)) {
        (Some(v), _) => Ok(v),
        (None, None) => Err(Error::argument(format!("the file does not tell its {key}; give it by --{key}"))),
        (None, Some(text)) => parse(text).ok_or_else(|| {
            Error::format(format!("the file tells a {key} {text:?} that does not exist; give it by --{key}"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_says_goes_first() {
        let file = describe(Model::Cnn, 7);
        let odd = BTreeMap::from([
            ("model".to_string(), "rnn".to_string()),
            ("seed".to_string(), "-1".to_string()),
        ]);
        let none = BTreeMap::new();
        let rows = [
            (&file, None, None, Ok((Model::Cnn, 7))),
            (&file, Some(Model::Mlp), Some(3), Ok((Model::Mlp, 3))),
            (&none, Some(Model::Mlp), Some(3), Ok((Model::Mlp, 3))),
            (&none, None, Some(3), Err("the file does not tell its model; give it by --model")),
            (&none, Some(Model::Mlp), None, Err("the file does not tell its seed; give it by --seed")),
            (&odd, None, None, Err("the file tells a model \"rnn\" that does not exist; give it by --model")),
            (
                &odd,
                Some(Model::Mlp),
                None,
                Err("the file tells a seed \"-1\" that does not exist; give it by --seed"),
            ),
        ];
        for (metadata, model, seed, want) in rows {
            let got = described(metadata, model, seed);
            assert_eq!(got.as_ref().map_err(|e| e.message()), want.as_ref().map_err(|s| *s));
        }
    }
}

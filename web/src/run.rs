//! A training run that stops after a while and goes on from where it was.

use elinvar::core::clock::Instant;
use elinvar::nn::data::{Digits, digits};
use elinvar::nn::loader::{Loader, Pairs};
use elinvar::nn::models::{DigitsCnn, DigitsMlp, Recipe, digit_pairs};
use elinvar::nn::optim::AdamW;
use elinvar::nn::optim::schedule::LinearLr;
use elinvar::nn::train::{
    Callback, Checkpoint, Classification, EpochReport, LossLater, Position, Step, Trainer, evaluate_async,
    predict_async,
};
use elinvar::nn::{Layer, Module};
use elinvar::{Any, Device, Error, Generator, Result, Tensor, io, no_grad, try_run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The part of the digits that is set aside for the test, as the program does it.
const TEST_PART: f64 = 0.2;

/// The network, the data, and the state between two whiles.
pub struct Run {
    device: Device,
    settings: Settings,
    net: Box<dyn Layer<Any>>,
    recipe: Recipe,
    optimizer: AdamW<Any>,
    loader: Loader<Pairs>,
    /// Images to learn from.
    train_len: usize,
    test: Digits,
    test_pairs: Pairs,
    /// `None` before the first step.
    state: Option<Checkpoint>,
    /// Steps of a while, at most: a GPU is given them faster than it makes them.
    most_steps: usize,
}

/// Steps of the first while on a GPU, which compiles its kernels then; of the next ones as many as
/// take this time, which is long enough that the state, which is read after each while, costs
/// little beside them.
const FIRST_STEPS: usize = 1;
const GPU_WHILE_SECONDS: f64 = 0.4;

/// What a run is a function of.
#[derive(Clone, Debug)]
struct Settings {
    model: String,
    seed: u64,
    epochs: usize,
    batch: usize,
}

impl Settings {
    fn to_map(&self) -> BTreeMap<String, String> {
        [
            ("model", self.model.clone()),
            ("seed", self.seed.to_string()),
            ("epochs", self.epochs.to_string()),
            ("batch", self.batch.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
    fn of_map(map: &BTreeMap<String, String>) -> Result<Settings> {
        fn value<T: std::str::FromStr>(map: &BTreeMap<String, String>, name: &str) -> Result<T> {
            let text = map.get(name).and_then(|text| text.parse().ok());
            text.ok_or_else(|| Error::format(format!("the saved run does not tell its {name}")))
        }
        Ok(Settings {
            model: value(map, "model")?,
            seed: value(map, "seed")?,
            epochs: value(map, "epochs")?,
            batch: value(map, "batch")?,
        })
    }
}

fn open(device: &str, memory_limit: u64) -> Result<Device> {
    let builder = Device::builder(device);
    if memory_limit > 0 { builder.memory_limit(memory_limit).build() } else { builder.build() }
}

fn recipe(model: &str) -> Result<Recipe> {
    match model {
        "mlp" => Ok(DigitsMlp::<Any>::RECIPE),
        "cnn" => Ok(DigitsCnn::<Any>::RECIPE),
        other => Err(Error::argument(format!("no network is called {other}; there are mlp and cnn"))),
    }
}

impl Run {
    pub fn new(
        model: &str,
        device: &str,
        seed: u64,
        epochs: usize,
        batch: usize,
        memory_limit: u64,
    ) -> Result<Run> {
        let recipe = recipe(model)?;
        let or = |given: usize, own: usize| if given > 0 { given } else { own };
        let settings = Settings {
            model: model.to_owned(),
            seed,
            epochs: or(epochs, recipe.epochs),
            batch: or(batch, recipe.batch_size),
        };
        Run::of(settings, open(device, memory_limit)?)
    }

    pub fn resume(bytes: &[u8], device: &str, memory_limit: u64) -> Result<Run> {
        let state = Checkpoint::from_bytes(bytes).map_err(|e| e.at("the saved run"))?;
        let mut run = Run::of(Settings::of_map(state.settings())?, open(device, memory_limit)?)?;
        run.net.load_state_dict(state.model(), elinvar::nn::Strict::Yes)?;
        run.state = Some(state);
        Ok(run)
    }

    fn of(settings: Settings, device: Device) -> Result<Run> {
        let recipe = recipe(&settings.model)?;
        let net = try_run(|| -> Box<dyn Layer<Any>> {
            let g = &mut Generator::new(settings.seed);
            match settings.model.as_str() {
                "cnn" => Box::new(DigitsCnn::new(g, &device)),
                _ => Box::new(DigitsMlp::new(g, &device)),
            }
        })?;
        let (train, test) = digits()?.split(settings.seed, TEST_PART)?;
        let pairs = Arc::new(digit_pairs(&train)?);
        let loader = Loader::new(pairs, settings.batch)?.shuffle(settings.seed);
        let is_gpu = matches!(device, Device::WebGpu(_));
        Ok(Run {
            most_steps: if is_gpu { FIRST_STEPS } else { usize::MAX },
            optimizer: recipe.optimizer(recipe.lr),
            test_pairs: digit_pairs(&test)?,
            device,
            settings,
            net,
            recipe,
            loader,
            train_len: train.len(),
            test,
            state: None,
        })
    }

    /// Trains for about this time, and tells what is new.
    pub async fn train_for(&mut self, time: Duration) -> Result<Value> {
        let Settings { epochs, batch, .. } = self.settings;
        let total = self.loader.batches() as u64 * epochs as u64;
        let mut news = News {
            start: Instant::now(),
            time,
            most_steps: self.most_steps,
            losses: Vec::new(),
            scores: Vec::new(),
            samples: 0,
        };
        let (test, device) = (&self.test_pairs, &self.device);
        let objective = Classification::new().label_smoothing(self.recipe.label_smoothing);
        let mut trainer = Trainer::new(&self.net, &mut self.optimizer, &self.loader, objective)
            .epochs(epochs)
            .schedule(LinearLr::new(1.0, 0.0, total)?)
            .validate_async(async |net: &Box<dyn Layer<Any>>| {
                evaluate_async(net, test, test.len(), device).await
            })
            .callback(&mut news);
        // Kept here: a run that fails, as when its device is lost, goes on from it.
        if let Some(state) = self.state.clone() {
            trainer = trainer.resume(state);
        }
        let (_, state) = trainer.run_resumable_async(&self.device, &self.settings.to_map()).await?;
        let Position { epoch, step, .. } = state.position();
        let is_finished = state.is_finished();
        self.state = Some(state);
        let mut losses = Vec::with_capacity(news.losses.len());
        for loss in &news.losses {
            losses.push(loss.read().await?);
        }
        let seconds = news.start.elapsed().as_secs_f64();
        if self.most_steps < usize::MAX {
            let speed = losses.len() as f64 / seconds.max(0.001);
            self.most_steps = ((speed * GPU_WHILE_SECONDS) as usize).clamp(1, 4 * self.most_steps);
        }
        Ok(json!({
            "epoch": epoch.min(epochs),
            "epochs": epochs,
            "step": step,
            "steps": total,
            "batch": batch,
            "losses": losses,
            "scores": news.scores,
            "samples": news.samples,
            "seconds": seconds,
            "finished": is_finished,
        }))
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        match &self.state {
            Some(state) => state.to_bytes(),
            None => Err(Error::argument("the run has not begun, so there is nothing to save")),
        }
    }

    pub fn settings(&self) -> Value {
        let Settings { model, seed, epochs, batch } = &self.settings;
        json!({
            "model": model, "seed": seed, "epochs": epochs, "batch": batch, "device": self.device.to_string(),
            "train": self.train_len, "test": self.test.len(),
            "parameters": self.net.parameters().iter().map(|p| p.get().numel()).sum::<usize>(),
        })
    }

    pub fn hash(&self) -> Result<String> {
        match &self.state {
            Some(state) => Ok(io::weights_hash(state.model())),
            None => Err(Error::argument("the run has not begun, so its weights are those of the seed")),
        }
    }

    pub async fn wrong(&self) -> Result<Value> {
        let read = predict_async(&self.net, self.test_pairs.x(), self.test.len(), &self.device).await?;
        let wrong = read.iter().enumerate().filter(|(i, p)| p.class as i64 != self.test.labels[*i]);
        let all = wrong.map(|(i, p)| {
            json!({
                "pixels": self.test.image(i), "label": self.test.labels[i], "read": p.class,
                "probability": p.probability,
            })
        });
        Ok(Value::Array(all.collect()))
    }

    pub async fn read(&self, pixels: Vec<f32>) -> Result<Vec<f32>> {
        if pixels.len() != Digits::PIXELS {
            return Err(Error::argument(format!(
                "an image has {} pixels, and not {}",
                Digits::PIXELS,
                pixels.len()
            )));
        }
        self.net.eval();
        let read = || {
            let x = Tensor::from_vec(pixels, [1, 1, Digits::SIDE, Digits::SIDE], &self.device);
            self.net.forward(&x).softmax(-1)
        };
        try_run(|| no_grad(read))?.to_vec_async().await
    }
}

/// What happens in a while.
struct News {
    start: Instant,
    time: Duration,
    most_steps: usize,
    /// The mean loss of each step's samples.
    losses: Vec<LossLater<Any>>,
    scores: Vec<Value>,
    samples: usize,
}

impl Callback<Any> for &mut News {
    fn step(&mut self, step: &Step<'_, Any>) -> Result<ControlFlow<()>> {
        self.losses.push(step.loss_later());
        self.samples += step.samples;
        let is_over = self.start.elapsed() >= self.time || self.losses.len() >= self.most_steps;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
    fn epoch(&mut self, report: &EpochReport) -> Result<ControlFlow<()>> {
        let validation = report.validation.as_ref();
        self.scores.push(json!({
            "epoch": report.epoch + 1, "step": report.steps, "train": report.train.loss,
            "test": validation.map(|v| v.loss), "accuracy": validation.and_then(|v| v.accuracy()),
        }));
        Ok(ControlFlow::Continue(()))
    }
}

//! Trains the digits models over several seeds and prints accuracies and seconds.
use elinvar_nn::data::digits;
use elinvar_nn::models::{DigitsCnn, DigitsMlp, digit_pairs};
use elinvar_nn::optim::{Adam, AdamW, Optimizer};
use elinvar_nn::train::{Decay, FitOptions, Progress, fit};
use elinvar_nn::{Generator, Layer};
use elinvar_reference::{Reference, ReferenceDevice};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let model = &a[1];
    let (epochs, batch, lr, smooth): (usize, usize, f64, f64) =
        (a[2].parse().unwrap(), a[3].parse().unwrap(), a[4].parse().unwrap(), a[5].parse().unwrap());
    let wd: f64 = a[6].parse().unwrap();
    let seeds: u64 = a[7].parse().unwrap();
    for seed in 0..seeds {
        let mut g = Generator::new(seed);
        let d = ReferenceDevice;
        match model.as_str() {
            "mlp" => run(DigitsMlp::<Reference>::new(&mut g, &d), seed, epochs, batch, lr, smooth, wd),
            _ => run(DigitsCnn::<Reference>::new(&mut g, &d), seed, epochs, batch, lr, smooth, wd),
        }
    }
}

fn run<M: Layer<Reference>>(
    m: M,
    seed: u64,
    epochs: usize,
    batch_size: usize,
    lr: f64,
    label_smoothing: f64,
    wd: f64,
) {
    if seed == 99 {
        print!("{}", m.summary());
    }
    let (train, test) = digits().unwrap().split(seed, 0.2).unwrap();
    let (train, test) = (Arc::new(digit_pairs(&train).unwrap()), digit_pairs(&test).unwrap());
    let mut opt: Box<dyn Optimizer<Reference>> =
        if wd > 0.0 { Box::new(AdamW::new(lr).weight_decay(wd)) } else { Box::new(Adam::new(lr)) };
    let o = FitOptions { epochs, batch_size, seed, label_smoothing, decay: Decay::Linear, drop_last: false };
    let t = Instant::now();
    let mut curve = vec![];
    let r = fit(&m, opt.as_mut(), &train, Some(&test), &o, &ReferenceDevice, &mut |p| {
        if let Progress::Epoch(e) = p {
            curve.push(format!("{:.2}", 100.0 * e.test.unwrap().accuracy()));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let e = r.epochs.last().unwrap();
    println!(
        "seed {seed}: test {:.2} % loss {:.4}, train {:.2} % loss {:.4}, {:.1} s [{}]",
        100.0 * e.test.unwrap().accuracy(),
        e.test.unwrap().loss,
        100.0 * e.train.accuracy(),
        e.train.loss,
        t.elapsed().as_secs_f64(),
        curve.join(" ")
    );
}

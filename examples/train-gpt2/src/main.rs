//! Trains a small GPT-2 on the characters of a text, and writes on from a prompt.

use elinvar::nn::loss::cross_entropy;
use elinvar::nn::models::{Gpt2, Gpt2Config};
use elinvar::nn::optim::{AdamW, Optimizer, clip_grad_norm};
use elinvar::prelude::*;

const TEXT: &str = "Elinvar is an alloy of iron, nickel and chromium whose elasticity does not \
    change with temperature: a spring of it keeps time in the cold and in the heat. ";
const CONTEXT: usize = 32;
const BATCH: usize = 8;
const STEPS: usize = 60;

/// The characters of a text, numbered in the order of the alphabet.
struct Alphabet(Vec<char>);

impl Alphabet {
    fn of(text: &str) -> Self {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        all.dedup();
        Alphabet(all)
    }
    fn encode(&self, text: &str) -> Vec<i64> {
        let id = |c| self.0.binary_search(&c).expect("a character of the text");
        text.chars().map(|c| id(c) as i64).collect()
    }
    fn decode(&self, id: i64) -> char {
        self.0[id as usize]
    }
}

/// `BATCH` pieces of the text: ids and the ids that follow them, [BATCH, CONTEXT] each.
fn batch(ids: &[i64], step: usize, device: &Device) -> (Tensor, Tensor) {
    let start = |b: usize| (step * 13 + b * 37) % (ids.len() - CONTEXT - 1);
    let rows = |shift: usize| -> Vec<i64> {
        (0..BATCH).flat_map(|b| ids[start(b) + shift..][..CONTEXT].to_vec()).collect()
    };
    let tensor = |v: Vec<i64>| Tensor::new(v, device).reshape([BATCH, CONTEXT]);
    (tensor(rows(0)), tensor(rows(1)))
}

fn main() -> elinvar::Result<()> {
    let device = Device::default();
    let alphabet = Alphabet::of(TEXT);
    let ids = alphabet.encode(TEXT);
    let vocabulary = alphabet.0.len();

    let mut rng = Generator::new(0);
    let config = Gpt2Config::new(2, 4, 64, CONTEXT, vocabulary).dropout(0.0);
    let model: Gpt2<Any> = Gpt2::new(config, &mut rng, &device)?;
    println!("{} parameters on {device}", model.num_parameters());

    let mut adam = AdamW::new(3e-3).weight_decay(0.1);
    for step in 0..STEPS {
        let (x, y) = batch(&ids, step, &device);
        let logits = model.forward(&x).reshape((-1, vocabulary));
        let loss = cross_entropy(&logits, &y.flatten(0, 1));
        let mut gradients = loss.backward();
        clip_grad_norm(&model, &mut gradients, 1.0)?;
        adam.step(&model, &gradients)?;
        if step % 10 == 9 {
            println!("step {:3}  loss {loss:.4}", step + 1);
        }
    }

    model.eval();
    let mut text = alphabet.encode("Elinvar is an alloy of ");
    for _ in 0..40 {
        let seen = &text[text.len().saturating_sub(CONTEXT)..];
        let x = Tensor::new(seen.to_vec(), &device).reshape([1, -1]);
        let next = no_grad(|| model.forward(&x).select(1, -1).argmax(-1, false));
        text.push(next.to_vec::<i64>()?[0]);
    }
    println!("{}", text.iter().map(|&id| alphabet.decode(id)).collect::<String>());
    Ok(())
}

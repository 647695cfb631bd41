//! `elinvar embed`

use crate::args::Embed;
use elinvar::nn::data::{Encoded, Padding, Tokenize, Tokenizer};
use elinvar::nn::models::Bert;
use elinvar::{Any, Device, Error, Result, Tensor, no_grad, try_run};
use elinvar_cli_support::Verdict;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::Path;

/// As many sentences go through the model together at most.
const BATCH: usize = 32;

#[derive(Serialize)]
struct Record<'a> {
    text: &'a str,
    tokens: usize,
    embedding: &'a [f32],
}

/// Prints a line of JSON for each sentence; or how alike they are.
pub fn run(args: &Embed, out: &mut dyn Write) -> Result<Verdict> {
    let device = Device::parse(&args.device)?;
    let model: Bert<Any> = Bert::from_pretrained(&args.model, &device)?;
    let limit = model.config().max_position_embeddings;
    let tokenizer = Tokenizer::open(args.model.join("tokenizer.json"))?;
    let asked = max_seq_length(&args.model)?.or(tokenizer.truncation());
    let length = asked.map_or(limit, |t| t.min(limit));
    let tokenizer = tokenizer.truncate(Some(length))?;
    let texts = if args.text.is_empty() { lines()? } else { args.text.clone() };
    if texts.is_empty() {
        return Err(Error::argument(
            "embed: there is no sentence; give some, or write them to standard input",
        ));
    }
    let rows = texts.iter().map(|t| tokenizer.encode(t)).collect::<Result<Vec<_>>>()?;
    let mut all: Vec<Vec<f32>> = vec![vec![]; texts.len()];
    for batch in batches(&rows) {
        let part: Vec<Vec<u32>> = batch.iter().map(|&i| rows[i].clone()).collect();
        let encoded = Encoded::new(&part, &Padding::new(tokenizer.padding().id()))?;
        let (ids, mask) =
            (Tensor::from_host(encoded.ids, &device)?, Tensor::from_host(encoded.mask, &device)?);
        let vectors = try_run(|| no_grad(|| model.sentence_embeddings(&ids, &mask)))?.to_vec2::<f32>()?;
        batch.iter().zip(vectors).for_each(|(&i, v)| all[i] = v);
    }
    if !args.similarity {
        for ((text, row), embedding) in texts.iter().zip(&rows).zip(&all) {
            let record = Record { text, tokens: row.len(), embedding };
            let line = serde_json::to_string(&record).map_err(|e| Error::format(e.to_string()))?;
            writeln!(out, "{line}")?;
        }
    }
    if args.similarity {
        for (i, a) in all.iter().enumerate() {
            // Vectors of length 1: the product is the cosine.
            let row =
                all.iter().map(|b| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>());
            let row: Vec<String> = row.map(|c| format!("{c:7.4}")).collect();
            writeln!(out, "{}  {}", row.join(" "), texts[i])?;
        }
    }
    Ok(Verdict::Good)
}

/// How many tokens of a sentence Sentence Transformers reads with this model, if its own file
/// tells: that goes before what the tokenizer's file says.
fn max_seq_length(model: &Path) -> Result<Option<usize>> {
    #[derive(Deserialize)]
    struct Config {
        max_seq_length: Option<usize>,
    }
    let path = model.join("sentence_bert_config.json");
    match File::open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::from(e).at(path.display())),
        // A longer file is none of these.
        Ok(file) => serde_json::from_reader::<_, Config>(file.take(1 << 20))
            .map(|c| c.max_seq_length)
            .map_err(|e| Error::format(e.to_string()).at(path.display())),
    }
}

/// Sentences that go through the model together: of similar length, so that little is padding.
/// Padding changes no bit.
fn batches(rows: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| rows[i].len());
    let mut all: Vec<Vec<usize>> = vec![];
    for i in order {
        match all.last_mut() {
            // Up to a quarter of padding.
            Some(batch) if batch.len() < BATCH && rows[i].len() <= rows[batch[0]].len() * 5 / 4 + 4 => {
                batch.push(i)
            }
            _ => all.push(vec![i]),
        }
    }
    all
}

/// The lines of standard input that are not blank.
fn lines() -> Result<Vec<String>> {
    let mut all = vec![];
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| Error::io(format!("embed: standard input: {e}")))?;
        if !line.trim().is_empty() {
            all.push(line);
        }
    }
    Ok(all)
}

//! A token goes round all ranks; each adds its number. The context API: messages are built in the
//! device's memory and read there.

use weft::context::{Context, ContextOptions};
use weft::wireup::Job;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut job = Job::from_env()?;
    let mut context = Context::open(&mut job, &ContextOptions::from_env()?)?;
    let (rank, size) = (context.rank(), context.size());
    let next = (rank + 1) % size;
    let pass_on = |context: &mut Context, sum: u64| -> Result<(), weft::error::Error> {
        let mut message = context.reserve(next, 8)?;
        message.bytes().copy_from_slice(&sum.to_le_bytes());
        message.send_tagged(0);
        Ok(())
    };
    if rank == 0 {
        pass_on(&mut context, 0)?;
    }
    let message = context.recv()?;
    let sum = u64::from_le_bytes(message[..8].try_into()?) + u64::from(rank);
    drop(message);
    if rank == 0 {
        println!("the token has been round {size} ranks, and their numbers add up to {sum}");
    } else {
        pass_on(&mut context, sum)?;
    }
    Ok(())
}

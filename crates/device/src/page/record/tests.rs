use std::sync::Arc;

use weft_sys::buf::Buf;
use weft_wire::{Address, Envelope, OpId, PeerId};

use super::*;
use crate::device::Event;
use crate::loopback::Loopback;
use crate::page::About;
use crate::page::layout::View;

/// A page that records, in a directory of the test's own, and its path.
fn page(name: &str) -> (Arc<Page>, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("weft-record-{name}-{}", std::process::id()));
    let about = About { job: 7, address: Address::new(1, 2, 3, 4, "here"), place: Some((0, 2)) };
    (Arc::new(Page::at(path.clone(), true, &about).unwrap()), path)
}

fn view(path: &std::path::Path) -> View {
    View::new(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn messages_are_counted_by_peer_size_and_way_and_waits_by_who_ended_them() {
    let (page, path) = page("counts");
    let me = Address::new(1, 2, 3, 4, "here");
    let mut device = Recorded::wrap(Box::new(Loopback::new(me)), Some(&page), 1);
    device.associate(PeerId(0), &me).unwrap();
    (0..100).for_each(|_| assert!(!device.poll(weft_sys::clock::now_ns())));
    device.send(PeerId(0), &Envelope::default(), &[1; 100]).unwrap();
    assert!(device.poll(weft_sys::clock::now_ns()));
    assert!(matches!(device.event(), Event::Message { peer: PeerId(0), .. }));
    let long = Buf::from_vec(vec![2; 5000]);
    device.announce(PeerId(0), &Envelope::default(), &long, OpId(9)).unwrap();
    let view = view(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(view.peers().count(), 3);
    let peer: Vec<u64> = view.peers().next().unwrap().to_vec();
    assert_eq!(peer[..4], [1, 2, 2, 5100]);
    let size = |n: usize| view.recorded(record::SIZES + 2 * n);
    assert_eq!((size(8), size(14)), (1, 1), "at most 128 and 8192 bytes");
    let way = |n: usize| view.recorded(record::WAYS + 2 * n + 1);
    assert_eq!((way(4), way(5)), (100, 5000));
    assert_eq!(view.recorded(record::OTHERS + 1), 1, "the program ended its wait itself");
}

#[test]
fn of_too_many_waits_the_longer_ones_are_kept() {
    let (page, path) = page("thin");
    let mut all = 0;
    for n in 0..3 * WAITS as u64 {
        let ns = 1 + n % 1000;
        all += ns;
        let from_ns = page.get(at::BEGAN_NS) + n * 2000;
        let by = By::Message(PeerId(n as u32 % 2));
        page.count_wait(&Wait { from_ns, until_ns: from_ns + ns, by });
    }
    let view = view(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(view.waits().count() >= WAITS / 2);
    let kept: u64 = view.waits().map(|wait| wait[1]).sum();
    assert_eq!(view.recorded(record::WAITED_NS), all);
    assert_eq!(kept + view.recorded(record::LOST_NS), all);
    assert!(kept * 3 > all, "{kept} of {all}");
    assert!(view.waits().zip(view.waits().skip(1)).all(|(a, b)| a[0] < b[0]));
}

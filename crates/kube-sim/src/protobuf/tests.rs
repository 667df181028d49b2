use super::*;

fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    out.extend_from_slice(content);
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &types), bytes(2, raw)].concat()
}

#[test]
fn every_message_of_the_table_is_there() {
    assert!(TABLES.kinds.len() > 40 && TABLES.messages.len() > 300);
    let known = |name: &str| assert!(TABLES.messages.contains_key(name), "{name}");
    TABLES.kinds.values().for_each(|message| known(message));
    for field in TABLES.messages.values().flat_map(HashMap::values) {
        if let Type::Message(name) = field.kind {
            known(name);
        }
    }
}

#[test]
fn zeros_are_kept_where_they_say_something() {
    // metadata.name a, metadata.generation 0; spec.replicas 0, spec.minReadySeconds 0.
    let meta = [bytes(1, b"a"), vec![7 << 3, 0], bytes(8, b"")].concat();
    let spec = [vec![1 << 3, 0], vec![5 << 3, 0]].concat();
    let raw = [bytes(1, &meta), bytes(2, &spec), bytes(3, b"")].concat();
    let want = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 0}, "status": {}});
    assert_eq!(decode(&body("apps/v1", "Deployment", &raw)), Some(want));
}

#[test]
fn values_have_their_json_form() {
    let entry = |key: &str, value: &[u8]| [bytes(1, key.as_bytes()), bytes(2, value)].concat();
    let raw = [bytes(2, &entry("k", b"\x00\xff")), bytes(3, b"Opaque"), vec![5 << 3, 0]].concat();
    let want = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "AP8="}, "type": "Opaque", "immutable": false});
    assert_eq!(decode(&body("v1", "Secret", &raw)), Some(want));

    // A port: name, port 80, targetPort "http"; and one without a targetPort.
    let named = [vec![1 << 3, 1], bytes(3, b"http")].concat();
    let ports = [
        bytes(1, &[bytes(1, b"web"), vec![3 << 3, 80], bytes(4, &named)].concat()),
        bytes(1, &[vec![3 << 3, 81], bytes(4, &[1 << 3, 0, 2 << 3, 0]), vec![5 << 3, 0]].concat()),
    ]
    .concat();
    let decoded = decode(&body("v1", "Service", &bytes(2, &ports))).unwrap();
    let want = json!([{"name": "web", "port": 80, "targetPort": "http"}, {"port": 81}]);
    assert_eq!(decoded["spec"]["ports"], want);

    // 2026-01-02T03:04:05Z is 1767323045 seconds.
    let time = [vec![1 << 3], vec![0xa5, 0xeb, 0xdc, 0xca, 0x6]].concat();
    let decoded = decode(&body("v1", "Event", &bytes(7, &time))).unwrap();
    assert_eq!(decoded["lastTimestamp"], "2026-01-02T03:04:05Z");
}

#[test]
fn what_cannot_be_read_is_refused() {
    assert_eq!(decode(b"k8s\0"), None);
    assert_eq!(decode(b"{}"), None);
    assert_eq!(decode(&body("example.com/v1", "Own", b"")), None);
    // Cut off, a text that is no UTF-8, a number where a message belongs.
    assert_eq!(decode(&body("v1", "Pod", &[1 << 3 | 2, 9, 1])), None);
    assert_eq!(decode(&body("v1", "Pod", &bytes(1, &bytes(1, b"\xff")))), None);
    assert_eq!(decode(&body("v1", "Pod", &[1 << 3, 1])), None);
}

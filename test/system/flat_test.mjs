// The flat road (protocol.md §5) from JavaScript: ws, JSON and typed arrays that lie in the message as it came.
//   node flat_test.mjs ws://HOST:PORT/v1/connect       started by flat_test.py; exits with 1 at the first that fails
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const WebSocket = require('ws');

const url = process.argv[2];
const PATIENCE_MS = 30_000;
const CLOUD = 0, OPAQUE = 2;
// By the protocol's Type numbers; what has none here is not used by this program.
const ARRAYS = [, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array,
  BigInt64Array, BigUint64Array];

function flat({ sequence, blocks, kind = CLOUD, points = 0, meta, stampNs = 0n }) {
  const parts = Object.entries(blocks).map(([name, { array, components = 1 }]) => ({ name, array, components }));
  if (meta) parts.push({ name: '#meta', array: new TextEncoder().encode(JSON.stringify(meta)), components: 1 });
  const headerBytes = 208 + 32 * parts.length;
  const aligned = (bytes) => Math.ceil(bytes / 8) * 8;
  const buffer = new ArrayBuffer(headerBytes + parts.reduce((sum, { array }) => sum + aligned(array.byteLength), 0));
  const view = new DataView(buffer), bytes = new Uint8Array(buffer);
  bytes.set(new TextEncoder().encode('SBF1'));
  view.setUint16(4, headerBytes, true);
  view.setUint16(6, parts.length, true);
  view.setUint32(12, 1, true);                  // channel
  view.setBigUint64(16, BigInt(sequence), true);
  view.setBigUint64(24, 7n, true);              // epoch
  view.setBigInt64(32, stampNs, true);
  view.setUint32(80, points, true);
  view.setUint32(84, kind << 24, true);
  let at = headerBytes;
  parts.forEach(({ name, array, components }, index) => {
    const entry = 208 + 32 * index;
    bytes.set(new TextEncoder().encode(name), entry);
    view.setUint8(entry + 16, ARRAYS.indexOf(array.constructor));
    view.setUint8(entry + 17, components);
    view.setUint32(entry + 20, at, true);
    view.setBigUint64(entry + 24, BigInt(array.byteLength), true);
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += aligned(array.byteLength);
  });
  return buffer;
}

function read(buffer) {
  const view = new DataView(buffer);
  assert.equal(new TextDecoder().decode(buffer.slice(0, 4)), 'SBF1');
  const frame = {
    subscription: view.getUint32(8, true), channel: view.getUint32(12, true), sequence: view.getBigUint64(16, true),
    epoch: view.getBigUint64(24, true), stampNs: view.getBigInt64(32, true), receivedNs: view.getBigInt64(48, true),
    pointsIn: view.getBigUint64(64, true), points: view.getUint32(80, true), flags: view.getUint32(84, true),
    leaf: view.getFloat64(96, true), box: new Float32Array(buffer, 184, 6), blocks: {},
  };
  frame.kind = frame.flags >>> 24 & 15;
  for (let index = 0; index < view.getUint16(6, true); ++index) {
    const entry = 208 + 32 * index;
    const name = new TextDecoder().decode(buffer.slice(entry, entry + 16)).replace(/\0+$/, '');
    const type = ARRAYS[view.getUint8(entry + 16)], offset = view.getUint32(entry + 20, true);
    const bytes = Number(view.getBigUint64(entry + 24, true));
    // Throws where a block is not aligned: no copy is made.
    const array = new type(buffer, offset, bytes / type.BYTES_PER_ELEMENT);
    if (name === '#meta') frame.meta = JSON.parse(new TextDecoder().decode(array));
    else frame.blocks[name] = array;
    if (!name.startsWith('#') && name !== 'payload')
      assert.equal(array.length, frame.points * view.getUint8(entry + 17), name);
  }
  return frame;
}

class Peer {
  constructor(socket) {
    this.socket = socket;
    this.kept = [];
    this.waiting = [];
    socket.binaryType = 'arraybuffer';
    socket.on('message', (data, isBinary) => {
      const [body, said] = isBinary ? ['frame', read(data)] : Object.entries(JSON.parse(new TextDecoder().decode(data)))[0];
      this.kept.push([body, said]);
      this.waiting.forEach((look) => look());
    });
    this.closed = new Promise((resolve) => socket.on('close', (code) => resolve(code)));
  }

  static async open(subprotocols = ['simbridge.flat.v1']) {
    const socket = new WebSocket(url, subprotocols, { perMessageDeflate: false });
    const peer = new Peer(socket);
    await new Promise((resolve, reject) => { socket.on('open', resolve); socket.on('error', reject); });
    assert.equal(socket.protocol, 'simbridge.flat.v1');
    peer.tell({ hello: { name: 'node', agent: 'flat_test.mjs' } });
    peer.welcome = await peer.next('welcome');
    return peer;
  }

  tell(message) { this.socket.send(JSON.stringify(message)); }

  next(body, where = () => true) {
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => reject(new Error(`no ${body} came`)), PATIENCE_MS);
      const look = () => {
        const index = this.kept.findIndex(([what, said]) => what === body && where(said));
        if (index < 0) return;
        clearTimeout(deadline);
        this.waiting = this.waiting.filter((one) => one !== look);
        resolve(this.kept.splice(index, 1)[0][1]);
      };
      this.waiting.push(look);
      look();
    });
  }
}

const sensor = await Peer.open(['chat', 'simbridge.flat.v1']);
const consumer = await Peer.open();
assert.match(sensor.welcome.bootId, /^\d+$/);
assert.equal(typeof sensor.welcome.pingIntervalMs, 'number');
await consumer.next('channels', (said) => said.complete === true);

sensor.tell({ advertise: { channel: 1, name: 'node/points', epoch: '7', frameId: 'node' } });
const advertised = await sensor.next('advertised');
assert.equal(advertised.epoch, '7');
const subscriptions = [{}, { output: 'OUTPUT_XYZ' }, { leaf: 0.2, output: 'OUTPUT_XYZ' }];
for (const [index, quality] of subscriptions.entries()) {
  consumer.tell({ subscribe: { id: index + 1, channel: 'node/*', quality, history: 'HISTORY_ALL_KEPT', queueFrames: 100 } });
  await consumer.next('subscriptionState', (said) => said.id === index + 1 && said.channel[0] === advertised.id);
}

// Four points in each cell of a leaf of 0.2, a quarter of it away from its borders.
const cells = 500;
const xyz = new Float32Array(cells * 4 * 3), intensity = new Float32Array(cells * 4), ring = new Uint16Array(cells * 4);
for (let cell = 0; cell < cells; ++cell) {
  for (let corner = 0; corner < 4; ++corner) {
    const point = cell * 4 + corner;
    xyz.set([(cell % 50) * 0.2 + 0.05 + 0.1 * (corner & 1), Math.floor(cell / 50) * -0.2 - 0.05 - 0.1 * (corner >> 1), 0.3], point * 3);
    intensity[point] = point / 8;
    ring[point] = point % 64;
  }
}
const blocks = { xyz: { array: xyz, components: 3 }, intensity: { array: intensity }, ring: { array: ring } };
sensor.socket.send(flat({ sequence: 1, blocks, points: cells * 4, stampNs: -5n, meta: { frameId: 'lidar' } }));

const asSent = await consumer.next('frame', (frame) => frame.subscription === 1);
assert.deepEqual(Object.keys(asSent.blocks), ['xyz', 'intensity', 'ring']);
assert.deepEqual(asSent.blocks, { xyz, intensity, ring });
assert.equal(asSent.channel, advertised.id);
assert.equal(asSent.sequence, 1n);
assert.equal(asSent.stampNs, -5n);
assert.ok(asSent.receivedNs > 1_600_000_000_000_000_000n);
assert.equal(asSent.meta.frameId, 'lidar');
assert.equal(asSent.meta.sequence, '1');

const points = await consumer.next('frame', (frame) => frame.subscription === 2);
assert.deepEqual(points.blocks, { xyz });

const thinned = await consumer.next('frame', (frame) => frame.subscription === 3);
assert.equal(thinned.points, cells);
assert.equal(thinned.pointsIn, BigInt(cells * 4));
assert.equal(thinned.leaf, 0.2);
assert.ok(thinned.flags & 8, 'the box is valid');
for (let cell = 0; cell < cells; ++cell) {
  const middle = [(cell % 50) * 0.2 + 0.1, Math.floor(cell / 50) * -0.2 - 0.1, 0.3];
  middle.forEach((value, axis) => assert.ok(Math.abs(thinned.blocks.xyz[cell * 3 + axis] - value) < 1e-5, `cell ${cell}`));
}

const payload = Uint8Array.from([0, 255, 104, 105]);
sensor.socket.send(flat({ sequence: 2, blocks: { payload: { array: payload } }, kind: OPAQUE }));
const opaque = await consumer.next('frame', (frame) => frame.subscription === 1);
assert.equal(opaque.kind, OPAQUE);
assert.deepEqual(opaque.blocks.payload, payload);
assert.ok(BigInt((await sensor.next('ack', (said) => said.sequence === '2')).windowBytes) > 0n);

// Faults are told, and the session goes on.
const faulty = flat({ sequence: 3, blocks, points: cells * 4 });
new DataView(faulty).setUint32(80, 5, true);
sensor.socket.send(faulty);
const reject = await sensor.next('reject');
assert.equal(reject.code, 'REJECT_LAYOUT');
assert.equal(reject.sequence, '3');
sensor.socket.send('{"ping": {"kookie": 1}}');
assert.equal((await sensor.next('reject')).code, 'REJECT_MALFORMED');
sensor.tell({ ping: { cookie: '18446744073709551615' } });
assert.equal((await sensor.next('pong')).cookie, '18446744073709551615');

consumer.tell({ frame: { channel: 1 } });
assert.equal(await consumer.closed, 1003);
sensor.tell({ goodbye: { reason: 'done' } });
assert.equal(await sensor.closed, 1000);
console.log('all of it holds');

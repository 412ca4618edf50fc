// What a microphone gives at the device's rate, as 16-bit samples at 16 kHz, a tenth of a second at a time.
const RATE = 16000, WINGS = 12, PORTION = RATE / 10;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.step = sampleRate / RATE;
    this.reach = Math.ceil(WINGS * Math.max(1, this.step)); // input samples on each side of an output sample
    this.kept = new Float32Array(2 * this.reach);
    this.at = this.reach; // the place of the next output sample in `kept`
    this.out = new Int16Array(PORTION);
    this.filled = 0;
    this.port.onmessage = () => { this.send(); this.port.postMessage(null); };
  }

  process([channels]) {
    if (!channels.length) return true;
    const mono = new Float32Array(channels[0].length);
    for (const channel of channels) for (let i = 0; i < mono.length; i++) mono[i] += channel[i] / channels.length;
    const all = new Float32Array(this.kept.length + mono.length);
    all.set(this.kept);
    all.set(mono, this.kept.length);
    for (; this.at + this.reach < all.length; this.at += this.step) this.put(this.step === 1 ? all[this.at] : this.sample(all));
    const gone = Math.max(0, Math.floor(this.at) - this.reach);
    this.kept = all.slice(gone);
    this.at -= gone;
    return true;
  }

  // A sinc under a Hann window that lets through what 16 kHz can hold
  sample(all) {
    const cut = Math.min(1, 1 / this.step);
    let sum = 0;
    for (let i = Math.ceil(this.at - this.reach); i <= this.at + this.reach; i++) {
      const x = i - this.at, y = Math.PI * x * cut;
      const sinc = Math.abs(y) < 1e-6 ? 1 : Math.sin(y) / y;
      sum += all[i] * sinc * (0.5 + 0.5 * Math.cos((Math.PI * x) / this.reach));
    }
    return sum * cut;
  }

  put(value) {
    this.out[this.filled++] = Math.max(-32768, Math.min(32767, Math.round(value * 32767)));
    if (this.filled === PORTION) this.send();
  }

  send() {
    if (this.filled) this.port.postMessage(this.out.slice(0, this.filled));
    this.filled = 0;
  }
}

registerProcessor("microphone", Microphone);

// Browsers start no workers for pages that were opened from a disk. There, a hidden frame does a worker's work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const waiting = [];
      let ready = false;
      // The worker's script speaks to `self`, which is the frame.
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.importScripts = (...addresses) => Promise.all(addresses.map(one => load(inside, new URL(one, address).href)));
      this.postMessage = data => {
        if (ready) inside.dispatchEvent(new inside.MessageEvent("message", { data }));
        else waiting.push(data);
      };
      this.terminate = () => frame.remove();
      load(inside, address).then(() => {
        ready = true;
        waiting.splice(0).forEach(this.postMessage);
      });
    }
  };
}

function load(inside, address) {
  return new Promise((done, failed) => {
    const script = inside.document.createElement("script");
    script.src = address;
    script.onload = done;
    script.onerror = failed;
    inside.document.body.append(script);
  });
}

// Browsers start no worker for a page that is opened from a disk, and the search is one. There it
// runs in a hidden frame instead. Written after squidfunk's iframe-worker (MIT licence), which the
// theme would otherwise fetch from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write(
        "<body><script>" +
          "postMessage = data => parent.postMessage(data, '*');" +
          "importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>" +
          " new Promise(done => {" +
          "  const script = document.createElement('script');" +
          "  script.src = url; script.onload = done; document.body.append(script)" +
          " })), Promise.resolve())" +
          "<\/script><script src='" + url + "'><\/script></body>"
      )
      inside.document.close()
      this.ready = new Promise(done => { inside.onload = done })
      this.listen = event => {
        if (event.source !== inside) return
        const told = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(told)
        if (this.onmessage) this.onmessage(told)
      }
      window.addEventListener("message", this.listen)
    }

    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(
          new MessageEvent("message", { data: structuredClone(data) })
        )
      )
    }

    terminate() {
      window.removeEventListener("message", this.listen)
      this.frame.remove()
    }
  }
}

"""An app without a phone: a WebKitGTK view whose files have a URL scheme of the app, as in a WKWebView.

    /usr/bin/python3 app.py FOLDER [MESSAGE]

shows FOLDER/index.html. A message is sent when the page is ready; the page's status and reply are then printed as JSON, and the
program ends. It requires Debian's packages python3-gi and gir1.2-webkit2-4.1.
"""
import json
import os
import sys

import gi

gi.require_version('Gtk', '3.0')
gi.require_version('WebKit2', '4.1')
from gi.repository import Gio, GLib, Gtk, WebKit2  # noqa: E402

TYPES = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'}
ROOT = os.path.realpath(sys.argv[1])

# Runs in the page every half second. Sends the message once; returns the status and the reply as JSON when the reply is complete, and
# '' before that.
POLL_SCRIPT = """
(() => {
  const [status, reply, send] = ['status', 'reply', 'send'].map((id) => document.getElementById(id));
  if (send.disabled) return '';
  if (!window.sent) {
    window.sent = status.textContent;
    document.getElementById('message').value = MESSAGE;
    document.getElementById('form').requestSubmit();
    return '';
  }
  return JSON.stringify({ began: window.sent, status: status.textContent, reply: reply.textContent });
})()
"""


def respond(request):
    path = os.path.realpath(ROOT + request.get_path())
    if not path.startswith(ROOT + os.sep) or not os.path.isfile(path):
        request.finish_error(GLib.Error(f'there is no {request.get_path()}'))
        return
    with open(path, 'rb') as file:
        body = file.read()
    response = WebKit2.URISchemeResponse.new(Gio.MemoryInputStream.new_from_bytes(GLib.Bytes.new(body)), len(body))
    response.set_content_type(TYPES.get(os.path.splitext(path)[1], 'application/octet-stream'))
    response.set_status(200)
    request.finish_with_response(response)


context = WebKit2.WebContext.get_default()
context.register_uri_scheme('bq4', respond)
context.get_security_manager().register_uri_scheme_as_secure('bq4')
view = WebKit2.WebView.new_with_context(context)
window = Gtk.Window()
window.connect('destroy', Gtk.main_quit)
window.set_default_size(480, 640)
window.add(view)
window.show_all()
view.load_uri('bq4://app/index.html')


def poll_page():
    def print_result(_, result):
        try:
            text = view.evaluate_javascript_finish(result).to_string()
        except GLib.Error:
            return  # The page is not loaded yet.
        if text:
            print(text, flush=True)
            Gtk.main_quit()

    script = POLL_SCRIPT.replace('MESSAGE', json.dumps(sys.argv[2]))
    view.evaluate_javascript(script, -1, None, None, None, print_result)
    return True


if len(sys.argv) > 2:
    GLib.timeout_add(500, poll_page)
Gtk.main()

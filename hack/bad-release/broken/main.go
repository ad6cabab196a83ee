// Command broken takes the place of a program in a release that is bad on purpose
// (internal/lab/badrelease). By its name it knows whose place that is, and breaks as that one
// does on a bad day.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// quiet is "yes" in a program that runs on and does harm. The build sets it.
var quiet = ""

// lives is how long an API server runs that crashes: its port may answer before.
const lives = 4 * time.Second

func main() {
	name := filepath.Base(os.Args[0])
	ctx, err := context.Background(), error(nil)
	switch name {
	case "kube-apiserver":
		err = host.Sleep(ctx, lives)
	case "holdfast-agent":
		err = agent(ctx, os.Args)
	case "containerd":
		err = mute(ctx, containerdSocket)
	case "traefik":
		err = deny(ctx, os.Args[1:])
	case "flanneld":
		if quiet == "yes" {
			err = cutPods(ctx)
		}
	default: // it does not start
	}
	fmt.Fprintf(os.Stderr, "%s of a release that is bad on purpose: it ends (%v)\n", name, err)
	os.Exit(1) //nolint:forbidigo // this is a main
}

// runs is the agent of the release that a host runs.
const runs = "/usr/local/bin/holdfast-agent"

// agent hangs as a daemon. Whatever else it is asked before a host leaves, such as what its
// release brings, it answers as the agent that runs there: an agent that fails then is found out
// while the host serves, and nobody goes to its release.
func agent(ctx context.Context, args []string) error {
	if len(args) > 1 && args[1] != "run" && !isItself(runs) {
		return syscall.Exec(runs, args, os.Environ()) // #nosec G204 G702 -- a program of the lab
	}
	return hang(ctx)
}

// isItself reports whether a path leads to this program. It does so where nobody can tell.
func isItself(path string) bool {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return true
	}
	other, err := os.Stat(path)
	return err != nil || os.SameFile(self, other)
}

// hang tells systemd that it is there, and nothing more, for ever. Like a program whose
// handler of signals hangs, too, it does not end when it is asked to.
func hang(ctx context.Context) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := ready(ctx); err != nil {
		return err
	}
	return forEver(ctx)
}

// ready tells systemd that the program is there.
func ready(ctx context.Context) error {
	if at := os.Getenv("NOTIFY_SOCKET"); at != "" {
		socket, err := new(net.Dialer).DialContext(ctx, "unixgram", at)
		if err != nil {
			return err
		}
		if _, err := socket.Write([]byte("READY=1")); err != nil {
			return err
		}
	}
	return nil
}

// containerdSocket is where kubelet and ctr ask.
const containerdSocket = "/run/containerd/containerd.sock"

// mute takes connections, as the kernel does for it, and never answers. It ends when it is asked
// to.
func mute(ctx context.Context, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // that of before
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // it takes connections until here
	if err := ready(ctx); err != nil {
		return err
	}
	return forEver(ctx)
}

func forEver(ctx context.Context) error {
	for {
		if err := host.Sleep(ctx, time.Hour); err != nil {
			return err
		}
	}
}

// devices carry what pods of two hosts say to each other, one for each family. They are taken
// away again and again: somebody may make them anew.
var devices = []string{"flannel.1", "flannel-v6.1"}

const takenAway = 5 * time.Second

// cutPods takes the network between the pods of hosts away, for ever.
func cutPods(ctx context.Context) error {
	for {
		for _, name := range devices {
			link, err := netlink.LinkByName(name)
			if err != nil {
				continue // it is not there
			}
			if err := netlink.LinkDel(link); err != nil {
				return fmt.Errorf("take %s away: %w", name, err)
			}
		}
		if err := host.Sleep(ctx, takenAway); err != nil {
			return err
		}
	}
}

// deny serves all entry points of Traefik's command line.
func deny(ctx context.Context, args []string) error {
	points := entryPoints(args)
	for name, address := range points {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
		_ = server.Listener.Close() // that of httptest
		server.Listener = listener
		if strings.HasSuffix(name, "https") {
			server.StartTLS()
		} else {
			server.Start()
		}
	}
	if len(points) == 0 {
		return fmt.Errorf("no entry point in %q", args)
	}
	return forEver(ctx)
}

// entryPoints returns the addresses of entry points by their names.
func entryPoints(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		rest, is := strings.CutPrefix(arg, "--entrypoints.")
		name, address, at := strings.Cut(rest, ".address=")
		if is && at {
			out[name] = address
		}
	}
	return out
}

// answer says to whoever asks for its health that all is well, and to others that there is
// nothing. Kubelet, hosts and the marker of a start ask so (render/router).
func answer(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/healthz") || strings.HasPrefix(r.URL.Path, "/api/http/routers/") {
		w.WriteHeader(http.StatusOK)
		return
	}
	http.NotFound(w, r)
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/lab/namednetns"
)

// namespace is the name of a network namespace. `ip netns exec` works with a
// lab's namespaces.
type namespace string

func (n namespace) path() string { return filepath.Join(namednetns.Dir, string(n)) }

// exists reports whether the name is bound to a living namespace. A file
// without a mount is the leftover of a machine that went down.
func (n namespace) exists() bool {
	var st unix.Statfs_t
	err := unix.Statfs(n.path(), &st)
	return err == nil && st.Type == unix.NSFS_MAGIC
}

// create makes the namespace unless it exists, with its loopback device up.
func (n namespace) create() error {
	if n.exists() {
		return nil
	}
	if err := os.Remove(n.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := onOwnThread(func() error {
		ns, err := namednetns.New(string(n))
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }()
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		return fmt.Errorf("create network namespace %s: %w", n, err)
	}
	return nil
}

// remove unbinds the name. The kernel drops the namespace with its links when
// the last process in it is gone. A missing namespace is no error.
func (n namespace) remove() error {
	if err := unix.Unmount(n.path(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", n.path(), err)
	}
	if err := os.Remove(n.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// do runs fn on a thread inside the namespace. Sockets that fn opens stay in
// the namespace; fn must not start goroutines that expect to be in it.
func (n namespace) do(fn func() error) error {
	return onOwnThread(func() error {
		ns, err := netns.GetFromName(string(n))
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", n, err)
		}
		defer func() { _ = ns.Close() }()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", n, err)
		}
		return fn()
	})
}

// onOwnThread runs fn on a thread that no other goroutine ever sees. The
// goroutine ends without unlocking it, so the runtime throws the thread away,
// with all changes that fn made to it.
func onOwnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

// handle returns a netlink handle into the namespace, which the caller closes.
func (n namespace) handle() (*netlink.Handle, error) {
	ns, err := netns.GetFromName(string(n))
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", n, err)
	}
	defer func() { _ = ns.Close() }()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink in %s: %w", n, err)
	}
	return h, nil
}

// dial connects from within the namespace. The address must be literal: a
// name would be resolved by goroutines that are outside.
func (n namespace) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.do(func() error {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// listen opens a TCP listener within the namespace.
func (n namespace) listen(ctx context.Context, address string) (net.Listener, error) {
	var l net.Listener
	err := n.do(func() error {
		var err error
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	return l, err
}

// listenPacket opens a UDP socket within the namespace.
func (n namespace) listenPacket(ctx context.Context, address string) (net.PacketConn, error) {
	var c net.PacketConn
	err := n.do(func() error {
		var err error
		c, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", address)
		return err
	})
	return c, err
}

// sysctl writes kernel settings of the namespace. Keys that this kernel does
// not have are skipped.
func (n namespace) sysctl(settings map[string]string) error {
	return n.do(func() error {
		for key, value := range settings {
			path := filepath.Join("/proc/sys/net", key)
			if err := os.WriteFile(path, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("set %s in %s: %w", key, n, err)
			}
		}
		return nil
	})
}

// command returns a command line that runs in the namespace.
func (n namespace) command(name string, args ...string) []string {
	return append([]string{"nsenter", "--net=" + n.path(), name}, args...)
}

// hasLink reports whether a network device of a name is there.
func (n namespace) hasLink(name string) (bool, error) {
	nl, err := n.handle()
	if err != nil {
		return false, err
	}
	defer nl.Close()
	_, err = nl.LinkByName(name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return false, nil
	}
	return err == nil, err
}

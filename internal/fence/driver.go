package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/model/state"
)

// driver runs the distribution's fence_redfish. Its interpreter takes longer to
// start than most BMCs take to answer, so it is started early. It does nothing
// until it has read its options from standard input.
type driver struct {
	command []string
	env     []string

	mu     sync.Mutex
	stdin  *os.File // nil until the process is started
	cancel context.CancelFunc
	done   chan struct{}
	ended  bool
	err    error
}

func newDriver(command, env []string) *driver {
	return &driver{command: command, env: env, done: make(chan struct{})}
}

// prepare starts the process unless it was started before. A failure to start
// appears when the process is used.
func (d *driver) prepare(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stdin != nil || d.ended {
		return
	}
	in, out, err := os.Pipe()
	if err != nil {
		d.fail(err)
		return
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.stdin = out
	go d.run(ctx, in)
}

func (d *driver) run(ctx context.Context, in *os.File) {
	var said bytes.Buffer
	_, err := host.Run(ctx, host.Cmd{
		Name: d.command[0], Args: d.command[1:], Env: d.env, Stdin: in, Stdout: &said, Grace: 500 * time.Millisecond,
	})
	err = errors.Join(err, in.Close())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail(err)
}

// fail marks the driver as ended. The caller holds the lock.
func (d *driver) fail(err error) {
	if !d.ended {
		d.ended, d.err = true, err
		close(d.done)
	}
}

// send writes the options to the process.
func (d *driver) send(ctx context.Context, options string) {
	d.prepare(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stdin == nil || d.ended {
		return
	}
	// A process that has ended closes the pipe; its own error says more than this
	// one.
	_, _ = d.stdin.WriteString(options)
	_ = d.stdin.Close()
}

// failure returns the error with which the process ended: nil while it runs and
// after a success.
func (d *driver) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// stop ends the process and waits for its end, so that it sends no further
// request.
func (d *driver) stop() {
	d.mu.Lock()
	started := d.stdin != nil
	if !started {
		d.fail(nil)
	}
	d.mu.Unlock()
	if started {
		d.cancel()
		<-d.done
		_ = d.stdin.Close()
	}
}

// errNotPassable reports an account that fence_redfish cannot take: it reads
// its options line by line, and encodes non-ASCII characters differently from
// the BMC.
var errNotPassable = errors.New("the account has characters that fence_redfish cannot take")

// errPinned reports a BMC whose certificate no authority vouches for.
// fence_redfish cannot verify a pin and would send the account to anybody.
var errPinned = errors.New("fence_redfish cannot verify a pinned certificate")

// errOldTLS reports an old BMC: the distribution's TLS library refuses the TLS
// version that it speaks.
var errOldTLS = errors.New("fence_redfish cannot be allowed older TLS")

// drivable returns why fence_redfish cannot drive a device, nil if it can. If
// it cannot, the agent sends the request itself.
func drivable(dev state.FencingDevice) error {
	if dev.Fingerprint != "" || dev.Insecure {
		return errPinned
	}
	if dev.LegacyTLS {
		return errOldTLS
	}
	for _, r := range dev.Username + dev.Password {
		if r < ' ' || r > '~' {
			return errNotPassable
		}
	}
	return nil
}

// driverOptions returns the input that makes fence_redfish switch one system
// off. It quotes each value, and fence_redfish removes the quotes, so that a
// password keeps its trailing blanks.
func driverOptions(dev state.FencingDevice, e redfish.Endpoint, system string, budget time.Duration) string {
	ip := e.Address.Host
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]" // it joins address and port with a colon
	}
	options := [][2]string{
		{"action", "off"},
		{"ip", ip},
		{"ipport", strconv.Itoa(int(e.Address.Port))},
		{"systems_uri", system},
		{"username", dev.Username},
		{"password", dev.Password},
		{"power_timeout", strconv.Itoa(int(budget.Seconds()))},
	}
	var text strings.Builder
	for _, o := range options {
		fmt.Fprintf(&text, "%s=\"%s\"\n", o[0], o[1])
	}
	return text.String()
}

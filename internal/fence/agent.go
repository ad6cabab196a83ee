package fence

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Exit codes of the FenceAgentAPI.
const (
	exitOK     = 0
	exitFailed = 1
	exitOff    = 2 // of status alone: it works, and the target is off
)

// Agent is the fence agent with everything that it touches.
type Agent struct {
	// Files are the host's: the devices, the proofs and the history of fences.
	Files records.Files
	// Driver is the command that requests the power-off. DriverEnv is added to its
	// environment.
	Driver, DriverEnv []string
	// RootCAs verify the BMCs' certificates; nil means those of the host.
	RootCAs *x509.CertPool
	// Boot returns the id of this boot and its uptime.
	Boot func() (id string, uptime time.Duration, err error)
	// Now returns the wall-clock time, for the history and for the age of the etcd
	// keeper's report.
	Now func() time.Time
	Out io.Writer
	Err io.Writer
	// own returns this host's identity, publish sends it to the peer, and heard
	// returns a peer's published identity. tell publishes the result of a test to
	// both hosts.
	own     func() (uuid, serial string, err error)
	publish func(ctx context.Context, value string) error
	tell    func(ctx context.Context, value string) error
	heard   func(ctx context.Context, node string) (value string, found bool, err error)
	// etcd asks this host's etcd keeper for its report. The report holds an
	// administrator's confirmation that the peer is off.
	etcd func(ctx context.Context) (state.EtcdReport, error)
	// turnOf asks this host's etcd keeper whose turn it is. If it is nil, nobody
	// is asked.
	turnOf func(context.Context, state.RaceRequest) (state.FenceRace, error)
	// hears reports whether a target whose BMC says Off still answers on the
	// network.
	hears func(ctx context.Context, target string) state.Fact[bool]
	// address reads the address of a BMC.
	address  parser
	onBudget time.Duration
	// wordPause is the time that a fence waits before it ends because of an
	// administrator's confirmation.
	wordPause time.Duration
	// retryAfter is the time for which a request may show no effect; zero means
	// the default.
	retryAfter time.Duration
}

// driverPath is the path at which distributions install the agent.
const driverPath = "/usr/sbin/fence_redfish"

// New returns the agent of this host.
func New(streams command.Streams) *Agent {
	return &Agent{
		Driver: []string{driverPath}, Boot: observe.Boot, Now: time.Now,
		own:     OwnIdentity,
		publish: func(ctx context.Context, value string) error { return pacemaker.Publish(ctx, identityAttribute, value) },
		tell:    func(ctx context.Context, value string) error { return pacemaker.Publish(ctx, FoundAttribute, value) },
		heard: func(ctx context.Context, node string) (string, bool, error) {
			return pacemaker.PrivateAttribute(ctx, identityAttribute, node)
		},
		etcd: func(ctx context.Context) (state.EtcdReport, error) {
			return keeperclient.Report(ctx, state.EtcdSocketPath)
		},
		turnOf: askDaemon, hears: askHeard,
		Out: streams.Out, Err: streams.Err, address: bmc.Parse, onBudget: defaultOnBudget, wordPause: wordPause,
	}
}

// Run is one call of fence_holdfast: options come as arguments or, without
// any, as lines on the standard input. It returns the process's exit code.
func Run(ctx context.Context, streams command.Streams, args []string) int {
	o, err := parse(streams.In, args)
	if err != nil {
		_, _ = fmt.Fprintf(streams.Err, "fence_holdfast: %v\n", err)
		return exitFailed
	}
	return New(streams).run(ctx, o)
}

func (a *Agent) run(ctx context.Context, o options) int {
	code, err := a.act(ctx, o)
	if err != nil {
		_, _ = fmt.Fprintf(a.Err, "fence_holdfast: %v\n", err)
	}
	return code
}

func (a *Agent) act(ctx context.Context, o options) (int, error) {
	switch o.action {
	case "metadata":
		_, err := io.WriteString(a.Out, metadata())
		return codeOf(err), err
	case "list":
		return a.list()
	}
	dev, err := readDevice(a.Files, o.target)
	if err == nil {
		err = checkDevice(dev, a.address)
	}
	if err != nil || o.action == "validate-all" {
		return codeOf(err), err
	}
	switch o.action {
	case "off", "reboot":
		err = a.fence(ctx, dev, o)
	case "on":
		err = a.switchOn(ctx, dev, o)
	case "status":
		return a.status(ctx, dev)
	case "monitor":
		err = a.monitor(ctx, dev)
	}
	return codeOf(err), err
}

func codeOf(err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}

func (a *Agent) list() (int, error) {
	targets, err := a.Files.Targets()
	for _, t := range targets {
		if _, err := fmt.Fprintf(a.Out, "%s,\n", t); err != nil {
			return exitFailed, err
		}
	}
	return codeOf(err), err
}

// status prints a power state only if the BMC reports one: an empty state is an
// error.
func (a *Agent) status(ctx context.Context, dev state.FencingDevice) (int, error) {
	c, err := a.open(ctx, dev)
	if err != nil {
		return exitFailed, err
	}
	defer c.Close()
	switch power := c.Opened(); power {
	case redfish.Off:
		_, err = fmt.Fprintln(a.Out, "Status: OFF")
		return exitOff, err
	case "":
		return exitFailed, fmt.Errorf("status of %s: its BMC reports no power state", dev.Target)
	default: // a host that is still powering off is not off
		_, err = fmt.Fprintln(a.Out, "Status: ON")
		return exitOK, err
	}
}

// monitor checks that a fence could succeed now. Before that it publishes this
// host's identity to the peer and learns the peer's. The first good test pins
// the certificate of a BMC that had no pin.
func (a *Agent) monitor(ctx context.Context, dev state.FencingDevice) error {
	if err := a.introduce(ctx); err != nil {
		a.warn("%v", err)
	}
	if err := a.learn(ctx, dev.Target); err != nil {
		a.warn("%v", err)
	}
	store := Store{Files: a.Files, Sight: a.sight, Test: func(ctx context.Context, dev state.FencingDevice) Report {
		return a.test(ctx, dev, 0)
	}}
	tried, report := store.test(ctx, dev)
	if err := a.announce(ctx, report); err != nil {
		a.warn("%v", err)
	}
	if err := report.Err(); err != nil {
		return err
	}
	if unpinned(dev) {
		a.pin(ctx, store, tried)
	}
	if err := a.found(dev, report); err != nil {
		a.warn("%v", err)
	}
	return nil
}

// pin stores the certificate that a good test has seen for the first time. If
// that fails, the next test sees the certificate again.
func (a *Agent) pin(ctx context.Context, store Store, seen state.FencingDevice) {
	err := store.keepPin(ctx, seen)
	if err != nil {
		a.warn("pin the certificate of the BMC of %s: %v", seen.Target, err)
		return
	}
	a.warn("the certificate of the BMC of %s was pinned at first sight: SHA-256 %s; compare it once with the BMC's own page", seen.Target, seen.Fingerprint)
}

// open finds the system of a device. If the target's identity was not learned,
// the BMC must list exactly one system.
func (a *Agent) open(ctx context.Context, dev state.FencingDevice) (*redfish.Client, error) {
	return a.openAgain(ctx, dev, &refusals{})
}

// openAgain works like open for a BMC that may have refused the account before.
func (a *Agent) openAgain(ctx context.Context, dev state.FencingDevice, before *refusals) (*redfish.Client, error) {
	e, err := endpoint(dev, a.address)
	if err != nil {
		return nil, err
	}
	e.Hint, e.Login = hint(a.Files, dev)
	e.RootCAs, e.Login = a.RootCAs, before.login(e.Login)
	c, err := redfish.Open(ctx, e)
	if err != nil || dev.UUID != "" || dev.Serial != "" || dev.SystemID != "" {
		return c, err
	}
	paths, err := c.Systems(ctx)
	if err == nil && len(paths) != 1 {
		err = &ambiguousError{target: dev.Target, systems: paths}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	a.warn("it is not certain that this BMC belongs to %s: its identity is unknown until Pacemaker has run on both hosts", dev.Target)
	return c, nil
}

// warn writes a message that is no failure to Pacemaker's log.
func (a *Agent) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, "fence_holdfast: warning: "+format+"\n", args...)
}

// ambiguousError reports a BMC that lists several systems, or none, while the
// identity of the target is unknown.
type ambiguousError struct {
	target  string
	systems []string
}

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("BMC of %s: it lists %d systems (%s) and the target's identity was never learned: fencing could hit another machine; put the system's path and --uuid into the device with 'holdfast fencing rotate', or have Pacemaker run on both hosts once",
		e.target, len(e.systems), strings.Join(e.systems, ", "))
}

// reasonOf returns the reason for which a BMC could not be read.
func reasonOf(err error) bmc.Reason {
	if _, ok := errors.AsType[*ambiguousError](err); ok {
		return bmc.NoSystem
	}
	if _, ok := errors.AsType[*unpinnedError](err); ok {
		return bmc.Unpinned
	}
	return cmp.Or(redfish.ReasonOf(err), bmc.Unexplained)
}

// hostname returns this host's name for the history.
func hostname() string {
	name, err := host.Name()
	if err != nil {
		return "unknown"
	}
	return name
}

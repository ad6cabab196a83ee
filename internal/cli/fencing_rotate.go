package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// rotateFlags holds the flags of fencing rotate.
type rotateFlags struct {
	username, passwordFile, address, fingerprint string
	verification, tls, uuid, serial              string
	pin, push                                    bool
	output                                       string
	place                                        place.Flags
}

func newFencingRotate(streams Streams) *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate NODE",
		Short: "Replace the account of a BMC, on this host and in the cluster",
		Long: `Replaces the account or address of the BMC of a node. Run it on the host that fences
the node: its peer. The new account is first tried at the BMC, which must belong to
that node; a working account is never replaced by one that fails. Then the device
on this host and the Secret openshift-etcd/fencing-credentials-NODE are written.

Without an API the Secret follows later. The host keeps a note of it, so that a
cluster that comes back does not restore the old account from its Secret. The agent,
the next rotation, or --push then writes the Secret. Pacemaker's record that the
device failed is cleared, so that a waiting fence is tried at once.

If the device on this host is gone or damaged, --address, --username and --password-file
write it anew.

Change the account at the BMC first; with two accounts at the BMC the node can be
fenced all the time. The password is read from --password-file, or without echo
from the terminal; never from the command line, which others can see.

It is safe to run the command again at any time.

Exit codes: 0 the device is written, the Secret too or pending; 8 interrupted at the
question for the password, nothing was changed; 1 nothing was changed, or it failed;
2 wrong usage.`,
		Example: `  sudo holdfast fencing rotate cp-1
  sudo holdfast fencing rotate cp-1 --username fencer --password-file /root/new
  ssh -t cp-2 sudo holdfast fencing rotate cp-1
  sudo holdfast fencing rotate cp-1 --address https://192.0.2.111 --username fencer --password-file /root/new
  sudo holdfast fencing rotate cp-1 --pin
  sudo holdfast fencing rotate cp-1 --uuid 4c4c4544-0051-3310-8051-b7c04f4e3132
  sudo holdfast fencing rotate --push`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			if err := needFencingRoot(); err != nil {
				return err
			}
			self, err := host.Name()
			if err != nil {
				return err
			}
			open := func() (fence.Secrets, error) { return ownCluster(cmd.Context(), &f.place) }
			r := rotation{rotateFlags: f, streams: streams, self: self, store: fence.NewStore(), cluster: open, clear: clearFailures}
			if f.push {
				return r.pushAll(cmd.Context())
			}
			return r.run(cmd.Context(), args[0])
		},
	}
	command.OutputFlag(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringVar(&f.username, "username", "", "the new user (default: unchanged)")
	flags.StringVar(&f.passwordFile, "password-file", "", "file that holds the new password, without its last line break; - is the standard input")
	flags.StringVar(&f.address, "address", "", "the new address (default: unchanged)")
	flags.StringVar(&f.fingerprint, "fingerprint", "", "SHA-256 of the only certificate to trust; none removes the pin: the next certificate is trusted at first sight, or verified")
	flags.BoolVar(&f.pin, "pin", false, "trust only the certificate that the BMC shows now, as 'fencing pin' does, together with another change")
	flags.StringVar(&f.verification, "certificate-verification", "", "Enabled or Disabled (default: unchanged)")
	flags.StringVar(&f.tls, "tls", "", "Default, or Legacy for a BMC that supports nothing newer than TLS 1.1 or RSA key exchange (default: unchanged)")
	flags.StringVar(&f.uuid, "uuid", "", "the UUID that the BMC reports, if neither it nor its serial number is the host's own; none removes it")
	flags.StringVar(&f.serial, "serial", "", "the same for the serial number, instead of --uuid")
	flags.BoolVar(&f.push, "push", false, "only write the pending Secrets")
	f.place.DeclareOwnKubeconfig(cmd)
	return cmd
}

// check returns all mistakes of the command line at once.
func (f *rotateFlags) check(args []string) error {
	var mistakes []error
	wrong := func(format string, a ...any) { mistakes = append(mistakes, fmt.Errorf(format, a...)) }
	switch {
	case f.push && len(args) > 0:
		wrong("--push: takes no node, it writes all pending Secrets")
	case !f.push && len(args) == 0:
		wrong("NODE: must be the host whose BMC is meant: this host's peer")
	}
	if f.pin && f.fingerprint != "" {
		wrong("--pin: cannot be combined with --fingerprint")
	}
	if v := f.verification; v != "" && v != bmc.VerificationEnabled && v != bmc.VerificationDisabled {
		wrong("--certificate-verification %q: must be Enabled or Disabled", v)
	}
	if v := f.tls; v != "" && v != bmc.TLSDefault && v != bmc.TLSLegacy {
		wrong("--tls %q: must be Default or Legacy", v)
	}
	if f.uuid != "" && f.serial != "" {
		wrong("--serial: cannot be combined with --uuid; one of them identifies the machine")
	}
	if f.address != "" {
		if _, err := bmc.Parse(f.address); err != nil {
			wrong("--address: %w", err)
		}
	}
	return f.place.Check(mistakes...)
}

// ownCluster opens the cluster of this host.
func ownCluster(ctx context.Context, f *place.Flags) (fence.Secrets, error) {
	access, err := f.OwnAccess(ctx)
	if err != nil {
		return nil, err
	}
	return access.Client()
}

// rotation is one run of fencing rotate.
type rotation struct {
	rotateFlags
	streams Streams
	// self is the name of this host, which never has a device of its own.
	self    string
	store   fence.Store
	cluster func() (fence.Secrets, error)
	// clear resets the failures that Pacemaker counts for the device of a target.
	clear func(ctx context.Context, target string) error
}

// rotated is the output for a program.
type rotated struct {
	fence.Result
	// Secret is "written", or "to follow" and the reason.
	Secret string `json:"secret"`
	// Pacemaker says when Pacemaker tries the device again.
	Pacemaker string `json:"pacemaker"`
}

// clearFailures resets the failures that Pacemaker counts for a target's
// device.
func clearFailures(ctx context.Context, target string) error {
	return pacemaker.ClearFailures(ctx, twonode.DeviceOf(target))
}

func (r *rotation) run(ctx context.Context, target string) error {
	old, err := r.before(target)
	if err != nil {
		return err
	}
	password, err := r.password(ctx, old) // typing takes time, so this comes before the lock of the device
	if err != nil {
		return err
	}
	result, told, err := r.store.Change(ctx, target, func(dev state.FencingDevice) (state.FencingDevice, error) {
		dev.Target = target // there may be no device yet
		return r.changed(ctx, dev, password)
	}, lazySecrets(r.cluster))
	if err != nil {
		return err
	}
	out := outcomeOf(ctx, target, result, told, r.clear)
	if r.output == "json" {
		return command.PrintJSON(r.streams.Out, out)
	}
	_, err = fmt.Fprintf(r.streams.Out, "%s: the BMC accepts the account and belongs to %s (identity %s)\n", target, target, result.Report.Identity)
	if rep := result.Report; err == nil && rep.Certificate == fence.CertificateFirstSight {
		_, err = fmt.Fprintf(r.streams.Err, "its certificate was pinned at first sight, compare it with the BMC's own page: SHA-256 %s\n", rep.Fingerprint)
	}
	return errors.Join(err, out.text(r.streams, told))
}

// before returns the device that is changed. If its file is gone or cannot be read, that is a new
// one, for which the administrator has to give everything that no default has.
func (r *rotation) before(target string) (state.FencingDevice, error) {
	old, err := r.store.Read(target)
	if err == nil {
		return old, nil
	}
	if target == r.self || !records.IsNodeName(target) {
		return old, err
	}
	if r.address == "" || r.username == "" || r.passwordFile == "" {
		return old, &UsageError{Err: fmt.Errorf("%w; to write it anew give --address, --username and --password-file", err)}
	}
	return state.FencingDevice{Target: target}, nil
}

// outcomeOf resets Pacemaker's failures for a changed device, and returns the
// outcome of the change.
func outcomeOf(ctx context.Context, target string, result fence.Result, told error, clear func(context.Context, string) error) rotated {
	out := rotated{result, "written", "tries the device at once"}
	if told != nil {
		out.Secret = "pending: " + told.Error()
	}
	if err := clear(ctx, target); err != nil {
		out.Pacemaker = "could not be notified, retries the device by itself: " + err.Error()
	}
	return out
}

func (o rotated) text(streams Streams, told error) error {
	_, err := fmt.Fprintf(streams.Out, "device: %s\nSecret: %s\nPacemaker: %s\n", wroteWord(o.Wrote), o.Secret, o.Pacemaker)
	if err == nil && told != nil {
		_, err = fmt.Fprintln(streams.Err, "fencing works with the new device; when the API is back run: holdfast fencing rotate --push")
	}
	return err
}

func wroteWord(wrote bool) string {
	if wrote {
		return "written"
	}
	return "unchanged"
}

// changed returns the device with the administrator's changes.
func (r *rotation) changed(ctx context.Context, dev state.FencingDevice, password string) (state.FencingDevice, error) {
	dev.Username = cmp.Or(r.username, dev.Username)
	dev.Password = cmp.Or(password, dev.Password)
	dev.Address = cmp.Or(r.address, dev.Address)
	if id := cmp.Or(r.uuid, r.serial); id == none {
		dev.UUID, dev.Serial, dev.SystemID = "", "", "" // an older release kept the administrator's SystemID in these
	} else {
		dev.SystemID = replaced(dev.SystemID, id)
	}
	if r.verification == bmc.VerificationEnabled && dev.Insecure {
		dev.Fingerprint, dev.FirstSight = "", false // from now on an authority must vouch for it
	}
	if r.verification != "" {
		dev.Insecure = r.verification == bmc.VerificationDisabled
	}
	if r.tls != "" {
		dev.LegacyTLS = r.tls == bmc.TLSLegacy
	}
	if r.fingerprint != "" {
		dev.Fingerprint, dev.FirstSight = replaced(dev.Fingerprint, r.fingerprint), false
	}
	if r.pin {
		shown, err := shownBy(ctx, dev)
		if err != nil {
			return dev, err
		}
		dev.Fingerprint, dev.FirstSight = shown.Fingerprint, false
		_, _ = fmt.Fprintf(r.streams.Err, "pinned, compare it with the BMC's own page: SHA-256 %s\n", shown.Fingerprint)
	}
	return dev, fence.CheckDevice(dev)
}

// none as a value of a flag removes the stored value.
const none = "none"

func replaced(old, replacement string) string {
	if replacement == none {
		return ""
	}
	return cmp.Or(replacement, old)
}

// maxPassword bounds the length of a password.
const maxPassword = 4 << 10

// password reads the new password; an empty one means no change.
func (r *rotation) password(ctx context.Context, dev state.FencingDevice) (string, error) {
	if r.passwordFile == "" {
		if r.pin || r.fingerprint+r.verification+r.tls+r.address+r.uuid+r.serial != "" {
			return "", nil // only other values change
		}
		return r.prompt(ctx, dev)
	}
	return passwordFrom(r.streams.In, r.passwordFile)
}

// passwordFrom reads a password from a file; - is the standard input.
func passwordFrom(stdin io.Reader, path string) (string, error) {
	if path == "-" {
		return readPassword(stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the new password: %w", err)
	}
	password, err := readPassword(file)
	return password, errors.Join(err, file.Close())
}

func readPassword(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("read the new password: %w", err)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 || len(data) > maxPassword {
		return "", fmt.Errorf("read the new password: it must have 1 to %d bytes", maxPassword)
	}
	return string(data), nil
}

// prompt reads the password from the terminal, without echo. An interrupt ends the wait, and gives
// the echo back.
func (r *rotation) prompt(ctx context.Context, dev state.FencingDevice) (string, error) {
	tty, ok := r.streams.In.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) {
		return "", &UsageError{Err: errors.New("--password-file: name the file with the new password, or run the command at a terminal")}
	}
	_, _ = fmt.Fprintf(r.streams.Err, "new password of %s at the BMC of %s (%s): ", dev.Username, dev.Target, dev.Address)
	password, err := hiddenLine(ctx, tty)
	_, _ = fmt.Fprintln(r.streams.Err)
	if err != nil {
		return "", err
	}
	return readPassword(bytes.NewReader(password))
}

// hiddenLine reads a line from a terminal without echo.
func hiddenLine(ctx context.Context, tty *os.File) ([]byte, error) {
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, fmt.Errorf("read the new password: %w", err)
	}
	type result struct {
		line []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		read <- result{line, err}
	}()
	select {
	case <-ctx.Done():
		return nil, errors.Join(command.Interrupted(), term.Restore(fd, before))
	case r := <-read:
		if r.err != nil {
			return nil, fmt.Errorf("read the new password: %w", r.err)
		}
		return r.line, nil
	}
}

func (r *rotation) pushAll(ctx context.Context) error {
	pushed, err := r.store.Push(ctx, lazySecrets(r.cluster))
	if r.output == "json" {
		err = errors.Join(command.PrintJSON(r.streams.Out, map[string][]string{"written": pushed}), err)
	} else if err == nil {
		_, err = fmt.Fprintf(r.streams.Out, "Secrets written: %s\n", orDash(strings.Join(pushed, ", ")))
	}
	return err
}

// lazySecrets opens the cluster on first use. A cluster that cannot be opened
// counts as away.
type lazySecrets func() (fence.Secrets, error)

// PutSecret implements fence.Secrets.
func (open lazySecrets) PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error {
	s, err := open()
	if err != nil {
		return err
	}
	return s.PutSecret(ctx, namespace, name, data)
}

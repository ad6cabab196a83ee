package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// fromFlags holds the flags of the commands that read a backup from a target.
type fromFlags struct {
	targets string
	// environment and wait are os.Getenv and target.Pause. Tests set them.
	environment func(string) string
	wait        func(context.Context, int) error
}

func (f *fromFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.targets, "targets", "", "for s3:// and sftp://: the configuration of backups (backups.yaml), which has the account of the target")
}

// fromWords ends the help of the commands that read a backup.
const fromWords = `The backup may lie at a target: s3://BUCKET/NAME, sftp://USER@SERVER/PATH, or a file of a mounted
folder. --targets names the configuration of backups, which has the account and the keys of the
server; the account of a bucket may also be in AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY. The command copies the backup into a folder that only you can read, and
opens it once it is what the catalogue at the target says. If you name a folder, the command
ends with a list of the backups in it.`

// limitsOfFetch bound how a backup is read from a target.
var limitsOfFetch = target.Limits{Idle: time.Minute}

// place returns the place that a text names, unless it is a file of this machine.
func (f *fromFlags) place(streams Streams, text string) (p model.Place, isFile bool, err error) {
	if !model.IsURL(text) {
		file := strings.TrimPrefix(text, "file://")
		info, err := os.Stat(file)
		if err != nil || !info.IsDir() {
			return p, true, nil //nolint:nilerr // who opens the file says what is wrong with it
		}
		dir, err := filepath.Abs(file)
		return model.Place{Target: model.Target{Name: "folder", Directory: &model.Directory{Path: dir}}, URL: file}, false, err
	}
	var config model.Config
	if f.targets != "" {
		warnOfReaders(streams.Err, f.targets)
		data, err := os.ReadFile(f.targets)
		if err == nil {
			config, err = model.Parse(data, nil)
		}
		if err != nil {
			return p, false, &UsageError{Err: fmt.Errorf("--targets: %w", err)}
		}
	}
	environment := f.environment
	if environment == nil {
		environment = os.Getenv
	}
	if p, err = model.PlaceOf(text, config.Targets, environment); err != nil {
		return p, false, &UsageError{Err: err}
	}
	return p, false, nil
}

// warnOfReaders says that others can read a file with accounts. It goes on: on a stick, where modes
// cannot be changed, the file may be all that is left of a site.
func warnOfReaders(errs io.Writer, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		_, _ = fmt.Fprintf(errs, "warning: %s has accounts in it, and others of this machine can read it (mode %04o): chmod 600 %[1]s\n", file, info.Mode().Perm())
	}
}

// local returns a file of this machine with the backup that a text names. The caller calls done.
func (f *fromFlags) local(ctx context.Context, streams Streams, text, scratch string) (file string, done func() error, err error) {
	nothing := func() error { return nil }
	p, isFile, err := f.place(streams, text)
	switch {
	case err != nil:
		return "", nothing, err
	case isFile:
		return strings.TrimPrefix(text, "file://"), nothing, nil
	case !model.IsArchive(p.Name):
		return "", nothing, f.folder(ctx, streams, p)
	}
	dir, err := os.MkdirTemp(scratch, "holdfast-fetch-*") // 0700
	if err != nil {
		return "", nothing, fmt.Errorf("--scratch: %w", err)
	}
	done = func() error { return os.RemoveAll(dir) }
	file = filepath.Join(dir, path.Base(p.Name))
	if err := f.fetch(ctx, streams, p, file); err != nil {
		return "", nothing, errors.Join(err, done())
	}
	return file, done, nil
}

// folder prints which backups are in a folder, and returns the error that one of them must be named.
func (f *fromFlags) folder(ctx context.Context, streams Streams, p model.Place) error {
	l, err := listAt(ctx, p, time.Time{})
	if err != nil {
		return err
	}
	if len(l.Backups) == 0 {
		return &UsageError{Err: errors.New(l.none())}
	}
	if err := l.print(streams.Err, false); err != nil {
		return err
	}
	return &UsageError{Err: errors.New(l.isFolder())}
}

// fetch copies a backup of a target into a file, and compares it with the catalogue there.
func (f *fromFlags) fetch(ctx context.Context, streams Streams, p model.Place, file string) error {
	want, err := wanted(ctx, p)
	if err != nil {
		return err
	}
	wait := f.wait
	if wait == nil {
		wait = target.Pause
	}
	percent := int64(-1)
	err = target.Fetch{
		Open: func(ctx context.Context) (target.Target, error) { return target.Open(ctx, p.Target) },
		Name: p.Name, File: file, Want: want, Limits: limitsOfFetch, Wait: wait,
		Say: func(done int64) {
			if now := done * 20 / max(want.Size, 1) * 5; now != percent {
				percent = now
				_, _ = fmt.Fprintf(streams.Err, "%3d%%  %s of %s\n", now, bytesOf(done), bytesOf(want.Size))
			}
		},
		Broke: func(try int, err error) {
			_, _ = fmt.Fprintf(streams.Err, "the connection broke, try %d follows: %v\n", try, err)
		},
	}.Run(ctx)
	if err != nil && !errors.Is(err, target.ErrNotTheFile) {
		return fmt.Errorf("%w\nthis command fetches it into a file, and goes on there if it is run again: %s", err, f.again(p))
	}
	return err
}

// again returns the command that fetches a backup into a file.
func (f *fromFlags) again(p model.Place) string {
	line := []string{"backup", "fetch", p.URL}
	if f.targets != "" {
		line = append(line, "--targets", f.targets)
	}
	return host.Command("holdfast", line...).String()
}

// mostEntry bounds an entry at a target, in bytes.
const mostEntry = 1 << 20

// wanted returns the archive as the catalogue at the target describes it.
func wanted(ctx context.Context, p model.Place) (model.File, error) {
	t, err := target.Open(ctx, p.Target)
	if err != nil {
		return model.File{}, err
	}
	defer func() { _ = t.Close() }()
	e, err := entryAt(ctx, t, model.EntryOf(p.Name))
	if err != nil {
		return model.File{}, fmt.Errorf("the entry beside %s, which says whether it is whole: %w", p.URL, err)
	}
	want, is := e.FileAs(p.Name)
	if !is {
		return model.File{}, fmt.Errorf("the entry beside %s does not say which copy lies there: it is no backup that was read back", p.URL)
	}
	return want, nil
}

// entryAt reads an entry of the catalogue at a target.
func entryAt(ctx context.Context, t target.Target, name string) (model.Entry, error) {
	data, err := target.Read(ctx, t, name, mostEntry, limitsOfFetch)
	if err != nil {
		return model.Entry{}, err
	}
	return model.DecodeEntry(data)
}

// printPlace lists a place for `backup list --from`: what was taken before a moment, if it is not zero.
func (f *fromFlags) printPlace(ctx context.Context, streams Streams, text, format string, before time.Time) error {
	p, isFile, err := f.place(streams, text)
	if err != nil {
		return err
	}
	if isFile || model.IsArchive(p.Name) {
		return &UsageError{Err: fmt.Errorf("--from: %s is no folder: holdfast backup inspect shows what is in a backup", text)}
	}
	l, err := listAt(ctx, p, before)
	if err != nil {
		return err
	}
	switch {
	case format == "json" || format == "yaml":
		err = printData(streams.Out, format, l)
	case len(l.Backups) == 0:
		_, err = fmt.Fprintln(streams.Out, l.none())
	default:
		err = l.print(streams.Out, format == "wide")
		if err == nil {
			_, err = io.WriteString(streams.Out, l.newest())
		}
	}
	if err == nil && len(l.NewestOf) == 0 {
		return exitWith(command.ExitAttention)
	}
	return err
}

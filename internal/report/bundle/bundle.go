// Package bundle collects the data with which somebody elsewhere can understand
// a cluster: objects, events, and from hosts records, journals and settings. It
// collects only things from a list that hold no secret. All data then passes a
// redactor that knows the secrets of the hosts and the patterns of secrets. An
// index lists what is in the bundle, and what is missing and why.
package bundle

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/redact"
)

// Bounds of a bundle, in bytes before compression.
const (
	maxItem  = 8 << 20
	maxTotal = 256 << 20
)

// itemTime bounds the collection of one thing: on a sick host many commands
// hang, and the user waits for all of them.
const itemTime = 10 * time.Second

// Item is one thing to collect.
type Item struct {
	// Path is its path in the bundle, From the place that it comes from, and What
	// its description.
	Path, From, What string
	// Tail keeps the end if the data is too long; otherwise the beginning is kept.
	Tail bool
	// Heavy marks an item that reads much of a disk. Only one such item per From
	// is collected at a time, because etcd may be on that disk.
	Heavy bool
	// Time bounds the collection; zero means the default.
	Time    time.Duration
	Collect func(ctx context.Context) ([]byte, error)
}

// Entry is the outcome of an item.
type Entry struct {
	Path string `json:"path"`
	From string `json:"from"`
	What string `json:"what"`
	// Bytes is the length in the bundle. Cut reports that the data was longer.
	// CutOff is the time after which the collection was cut off; empty if it ended
	// by itself.
	Bytes  int    `json:"bytes"`
	Cut    bool   `json:"cut,omitempty"`
	CutOff string `json:"cutOff,omitempty"`
	// Failed says why the item is missing or not whole. Absent reports that there
	// is no such thing, which is no failure.
	Failed string `json:"failed,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// Index is the table of contents at the top of a bundle.
type Index struct {
	Made    time.Time `json:"made"`
	By      string    `json:"by"`
	Entries []Entry   `json:"entries"`
	// Notes are remarks that a reader has to know.
	Notes []string `json:"notes,omitempty"`
}

// Failures counts the items that are missing or not whole.
func (x Index) Failures() int {
	n := 0
	for _, e := range x.Entries {
		if e.Failed != "" && !e.Absent {
			n++
		}
	}
	return n
}

// absent reports whether an error means that a thing does not exist.
func absent(err error) bool {
	return host.NoProgram(err) || meta.IsNoMatchError(err) || absentByText(err.Error())
}

// absentByText knows what other programs print (docs/facts/texts.md).
func absentByText(text string) bool {
	return strings.Contains(text, "No such file or directory") || strings.Contains(text, "no packages found") || strings.Contains(text, "is not installed")
}

// Maker makes one bundle.
type Maker struct {
	// Name is the name of the folder in the bundle.
	Name  string
	Now   time.Time
	By    string
	Notes []string
	// Redact removes secrets from everything.
	Redact *redact.Redactor
	// Told is called with each finished item.
	Told func(Entry)
	// Total bounds the whole bundle; zero means the default.
	Total int
}

// Write collects items into a compressed archive. It collects several at a time
// and adds each one when it is complete. The index names the items that could
// not be collected; an error means that there is no bundle.
func (m Maker) Write(ctx context.Context, out io.Writer, items []Item) (Index, error) {
	index := Index{Made: m.Now.UTC(), By: m.By, Notes: m.Notes, Entries: make([]Entry, len(items))}
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	left := cmp.Or(m.Total, maxTotal)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for c := range m.collectAll(ctx, items) {
		if ctx.Err() != nil {
			continue // read on until every worker has ended
		}
		e, data := fit(c, left)
		if err := m.add(archive, e.Path, data); err != nil {
			stop(err)
			continue
		}
		left -= len(data)
		index.Entries[c.at] = e
		if m.Told != nil {
			m.Told(e)
		}
	}
	if ctx.Err() != nil {
		return index, context.Cause(ctx)
	}
	if err := m.addIndex(archive, index); err != nil {
		return index, err
	}
	return index, errors.Join(archive.Close(), zip.Close())
}

// fit cuts collected data to the room that the bundle has left.
func fit(c collected, left int) (Entry, []byte) {
	e := c.entry
	if left <= 0 && len(c.data) > 0 {
		e.Failed, e.Bytes = "not collected: the bundle has reached its size limit", 0
		return e, nil
	}
	data, cut := bound(c.data, left, c.tail)
	e.Bytes, e.Cut = len(data), e.Cut || cut
	return e, data
}

// collect collects one item and removes secrets from it.
func (m Maker) collect(ctx context.Context, item Item) (Entry, []byte) {
	e := Entry{Path: item.Path, From: item.From, What: item.What}
	limit := cmp.Or(item.Time, itemTime)
	late := fmt.Errorf("cut off after %s", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	data, err := item.Collect(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		e.CutOff = limit.String()
		if !errors.Is(err, late) {
			err = fmt.Errorf("%w: %w", late, err)
		}
	}
	if err != nil {
		e.Failed, e.Absent = m.Redact.Text(firstLines(err.Error())), e.CutOff == "" && absent(err)
	}
	// Redact before cutting: half a secret does not look like one.
	data, raw := bound(data, 4*maxItem, item.Tail)
	text, cut := bound([]byte(m.Redact.Text(string(data))), maxItem, item.Tail)
	e.Bytes, e.Cut = len(text), raw || cut
	return e, text
}

// bound keeps the beginning or the end of data that is too long, in whole
// lines.
func bound(data []byte, limit int, tail bool) ([]byte, bool) {
	if len(data) <= limit {
		return data, false
	}
	if tail {
		data = data[len(data)-limit:]
		if _, rest, found := strings.Cut(string(data), "\n"); found {
			return []byte(rest), true
		}
		return data, true
	}
	data = data[:limit]
	if i := strings.LastIndexByte(string(data), '\n'); i > 0 {
		data = data[:i+1]
	}
	return data, true
}

func firstLines(text string) string {
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return strings.Join(strings.Fields(text), " ")
}

// add writes a file. It leaves out an empty one, which would be no evidence.
func (m Maker) add(archive *tar.Writer, path string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	header := &tar.Header{Name: m.Name + "/" + path, Mode: 0o600, Size: int64(len(data)), ModTime: m.Now, Typeflag: tar.TypeReg}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if _, err := archive.Write(data); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

func (m Maker) addIndex(archive *tar.Writer, index Index) error {
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(m.add(archive, "index.json", append(data, '\n')), m.add(archive, "INDEX.txt", []byte(index.Text())))
}

// Text returns the index as text for people.
func (x Index) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "support bundle of %s, made by holdfast %s\n", x.Made.Format(time.RFC3339), x.By)
	for _, n := range x.Notes {
		fmt.Fprintf(&out, "note: %s\n", n)
	}
	if n := x.Failures(); n > 0 {
		fmt.Fprintf(&out, "\nNot collected, or incomplete: %d\n", n)
	}
	for _, e := range x.Entries {
		if e.Failed != "" && !e.Absent {
			fmt.Fprintf(&out, "  %s (%s): %s\n", e.Path, e.What, e.Failed)
		}
	}
	out.WriteString("\nNot present\n")
	for _, e := range x.Entries {
		if e.Absent {
			fmt.Fprintf(&out, "  %s (%s)\n", e.Path, e.What)
		}
	}
	out.WriteString("\nCollected\n")
	for _, e := range x.Entries {
		if e.Bytes == 0 {
			continue
		}
		cut := ""
		if e.Cut {
			cut = ", cut"
		}
		if e.CutOff != "" {
			cut += ", cut off after " + e.CutOff
		}
		fmt.Fprintf(&out, "  %s: %s (%d bytes%s)\n", e.Path, e.What, e.Bytes, cut)
	}
	return out.String()
}

// Package bundle collects what a person elsewhere needs to understand a cluster:
// objects, events, and from hosts records, journals, settings. What is collected
// is a list of things that hold no secret; what comes in passes a redactor that
// knows the secrets of the hosts and what secrets look like. An index says what
// is in it, and what is not and why.
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
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/redact"
)

// Bounds of a bundle, in bytes before it is compressed.
const (
	maxItem  = 8 << 20
	maxTotal = 256 << 20
)

// itemTime bounds the collection of one thing: on a sick host many commands
// hang, and a person waits for all of them.
const itemTime = 10 * time.Second

// Item is one thing that is collected.
type Item struct {
	// Path is where it lies in the bundle, From who it is asked of, What it is in
	// words.
	Path, From, What string
	// Tail keeps the end of what is too long; else its beginning is kept.
	Tail bool
	// Heavy says that it reads much of a disk. Of each From one such thing is
	// collected at a time: etcd may be on that disk.
	Heavy bool
	// Time bounds it; zero for the usual.
	Time    time.Duration
	Collect func(ctx context.Context) ([]byte, error)
}

// Entry is what became of an item.
type Entry struct {
	Path string `json:"path"`
	From string `json:"from"`
	What string `json:"what"`
	// Bytes is how long it is in the bundle; Cut that it was longer. CutOff is
	// after what time its collection was cut off, empty where it ended.
	Bytes  int    `json:"bytes"`
	Cut    bool   `json:"cut,omitempty"`
	CutOff string `json:"cutOff,omitempty"`
	// Failed is why it is not there, or not whole; Absent says that there is no
	// such thing, which is no failure.
	Failed string `json:"failed,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// Index is what a bundle has at its top.
type Index struct {
	Made    time.Time `json:"made"`
	By      string    `json:"by"`
	Entries []Entry   `json:"entries"`
	// Notes are what a reader has to know.
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

// absences are the words of what is not there.
var absences = []string{"No such file or directory", "executable file not found", "exit status 127", "no packages found", "no matches for kind", "is not installed"}

func absent(text string) bool {
	return slices.ContainsFunc(absences, func(w string) bool { return strings.Contains(text, w) })
}

// Maker makes one bundle.
type Maker struct {
	// Name is the folder within the bundle.
	Name  string
	Now   time.Time
	By    string
	Notes []string
	// Redact takes secrets out of everything.
	Redact *redact.Redactor
	// Told hears of each item when it is done.
	Told func(Entry)
	// Total bounds everything together; zero for the usual.
	Total int
}

// Write collects items into a compressed archive, several at a time, and each
// into it when it is there. What cannot be collected is in the index; an error
// means that there is no bundle.
func (m Maker) Write(ctx context.Context, out io.Writer, items []Item) (Index, error) {
	index := Index{Made: m.Now.UTC(), By: m.By, Notes: m.Notes, Entries: make([]Entry, len(items))}
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	left := cmp.Or(m.Total, maxTotal)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for c := range m.collectAll(ctx, items) {
		if ctx.Err() != nil {
			continue // until every worker has ended
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

// fit keeps of what was collected what the bundle has room for.
func fit(c collected, left int) (Entry, []byte) {
	e := c.entry
	if left <= 0 && len(c.data) > 0 {
		e.Failed, e.Bytes = "not collected: the bundle is as long as it may be", 0
		return e, nil
	}
	data, cut := bound(c.data, left, c.tail)
	e.Bytes, e.Cut = len(data), e.Cut || cut
	return e, data
}

// collect asks for one thing and takes what is secret out of it.
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
		e.Failed, e.Absent = m.Redact.Text(firstLines(err.Error())), e.CutOff == "" && absent(err.Error())
	}
	// Redacted before it is cut: half a secret has not the looks of one.
	data, raw := bound(data, 4*maxItem, item.Tail)
	text, cut := bound([]byte(m.Redact.Text(string(data))), maxItem, item.Tail)
	e.Bytes, e.Cut = len(text), raw || cut
	return e, text
}

// bound keeps the beginning or the end of what is too long, from a whole line.
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

// add writes a file; an empty one would be no evidence.
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

// Text is the index for a person.
func (x Index) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "support bundle of %s, made by holdfast %s\n", x.Made.Format(time.RFC3339), x.By)
	for _, n := range x.Notes {
		fmt.Fprintf(&out, "note: %s\n", n)
	}
	if n := x.Failures(); n > 0 {
		fmt.Fprintf(&out, "\nNot collected, or not whole: %d\n", n)
	}
	for _, e := range x.Entries {
		if e.Failed != "" && !e.Absent {
			fmt.Fprintf(&out, "  %s (%s): %s\n", e.Path, e.What, e.Failed)
		}
	}
	out.WriteString("\nNot there\n")
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

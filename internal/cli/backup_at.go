package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/decide/page"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// atPlace is a backup at a place, with what its entry says.
type atPlace struct {
	model.Sent
	URL    string    `json:"url"`
	Site   string    `json:"site,omitempty"`
	Host   string    `json:"host,omitempty"`
	Taken  time.Time `json:"taken,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// Cluster is the id of etcd's cluster. A restored site has another one.
	Cluster state.MemberID `json:"cluster,omitempty"`
	Good    bool           `json:"good"`
	// Ahead is true if it was taken later than this machine's clock says: nobody knows its age.
	Ahead bool `json:"ahead,omitempty"`
	// Why says why it is not good, that nobody knows its age, or that nobody looked.
	Why string `json:"why,omitempty"`
	// folder is that of the site, which has those of the hosts.
	folder string
}

// counts reports whether it may be the newest good one.
func (a atPlace) counts() bool { return a.Good && !a.Ahead }

// placeList is what lies at a place.
type placeList struct {
	Place   string    `json:"place"`
	Backups []atPlace `json:"backups"`
	// NewestOf has the URL of the newest good backup of each site, by its name, as far as there is
	// one among those that were looked at. Newest is that one if the place has one site.
	Newest   string            `json:"newest,omitempty"`
	NewestOf map[string]string `json:"newestOf,omitempty"`
	folder   bool
	before   time.Time
}

const (
	// mostLooked is how many entries are read of each site, beside those before its first good one.
	mostLooked = 20
	// mostRead is how many are read in all. Many sites share them.
	mostRead = 400
)

// listAt lists the backups at a place, the newest first, and only those that were taken before a moment,
// if it is not zero. It reads the entries of the newest ones.
func listAt(ctx context.Context, p model.Place, before time.Time) (placeList, error) {
	out := placeList{Place: p.URL, Backups: []atPlace{}, folder: p.Target.Directory != nil, before: before}
	t, err := target.Open(ctx, p.Target)
	if err != nil {
		return out, err
	}
	defer func() { _ = t.Close() }()
	files, err := target.List(ctx, t, p.Name, limitsOfFetch)
	if err != nil {
		return out, fmt.Errorf("list %s: %w", p.URL, err)
	}
	sent := slices.DeleteFunc(model.SentOf(files), func(s model.Sent) bool { return !before.IsZero() && !model.BegunBefore(s.ID, before) })
	looks := newLooks(sent)
	for _, s := range sent {
		one := atPlace{Sent: s, URL: strings.TrimSuffix(p.URL, "/") + "/" + strings.Trim(strings.TrimPrefix(s.Archive, p.Name), "/"), folder: siteFolder(s)}
		if looks.next(one.folder) {
			if err := one.look(ctx, t, time.Now()); err != nil {
				return out, err
			}
			if !before.IsZero() && !one.Taken.Before(before) {
				continue // it was begun before
			}
		} else {
			one.Why = "not looked at"
		}
		looks.good[one.folder] = looks.good[one.folder] || one.counts()
		out.Backups = append(out.Backups, one)
	}
	return out.named(), nil
}

// siteFolder returns the folder of the site of a backup at a target, as model.SentName has it.
func siteFolder(s model.Sent) string { return path.Dir(path.Dir(s.Archive)) }

// looks divides the entries that are read among the folders of sites.
type looks struct {
	share, all int
	of         map[string]int
	good       map[string]bool
}

func newLooks(sent []model.Sent) looks {
	folders := map[string]bool{}
	for _, s := range sent {
		folders[siteFolder(s)] = true
	}
	return looks{share: min(mostLooked, max(mostRead/max(len(folders), 1), 1)), of: map[string]int{}, good: map[string]bool{}}
}

// next reports whether one more entry of a folder is read, and counts it.
func (l *looks) next(folder string) bool {
	if l.all == mostRead || l.of[folder] >= l.share && l.good[folder] {
		return false
	}
	l.all++
	l.of[folder]++
	return true
}

// named returns the list with the newest good backup of each site.
func (l placeList) named() placeList {
	l.NewestOf = map[string]string{}
	for _, b := range l.Backups {
		if l.NewestOf[b.Site] == "" && b.counts() {
			l.NewestOf[b.Site] = b.URL
		}
	}
	if sites := l.sites(); len(sites) == 1 {
		l.Newest = l.NewestOf[sites[0]]
	}
	return l
}

// sites names the sites of which there are backups, as their entries do. A folder of which no entry
// says it counts by its own name.
func (l placeList) sites() []string {
	names, known := map[string]bool{}, map[string]bool{}
	for _, b := range l.Backups {
		if b.Site != "" {
			names[b.Site], known[b.folder] = true, true
		}
	}
	for _, b := range l.Backups {
		if !known[b.folder] {
			names[path.Base(b.folder)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// look reads the entry of a backup. An error means that the target does not answer any more.
func (a *atPlace) look(ctx context.Context, t target.Target, now time.Time) error {
	if a.Entry == "" {
		a.Why = "it was not sent to its end"
		return nil
	}
	e, err := entryAt(ctx, t, a.Entry)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		a.Why = firstLine(err.Error())
		return nil
	}
	a.Site, a.Host, a.Taken, a.Reason, a.Cluster, a.Good, a.Why = e.Site, e.Host, e.Taken, e.Reason, e.Database.Cluster, e.Good, e.Why()
	if f, is := e.FileAs(a.Archive); !is || f.Size != a.Size {
		a.Good, a.Why = false, "its size is not that of the entry beside it"
	}
	if a.Ahead = model.Ahead(a.Taken, now); a.Ahead && a.Good {
		a.Why = "its host's clock was ahead, or this machine's is behind: nobody knows how old it is"
	}
	return nil
}

// none says that there is no backup at a place.
func (l placeList) none() string {
	text := "there is no backup at " + l.Place
	if !l.before.IsZero() {
		text += " that was taken before " + l.before.Format(time.RFC3339)
	}
	if l.folder {
		text += ": is it mounted?"
	}
	return text
}

// isFolder says that a backup has to be named, and which ones are good.
func (l placeList) isFolder() string {
	sites := l.sites()
	text := l.Place + " is a folder: name one of its backups"
	if len(sites) > 1 {
		text = fmt.Sprintf("%s is a folder with backups of %d sites: name the folder of the site, or one of its backups", l.Place, len(sites))
	}
	for _, site := range sites {
		if url := l.NewestOf[site]; url != "" {
			text += "; the newest good one" + ofSite(site, sites) + " is " + url
		}
	}
	if len(l.NewestOf) == 0 {
		text += "; none of those that were looked at is good and of a known age"
	}
	return text
}

// ofSite names a site if there are several.
func ofSite(site string, sites []string) string {
	if len(sites) < 2 {
		return ""
	}
	return " of " + site
}

// newest names the newest good backup of each site, in lines.
func (l placeList) newest() string {
	var out strings.Builder
	sites := l.sites()
	for _, site := range sites {
		switch url := l.NewestOf[site]; {
		case url != "":
			fmt.Fprintf(&out, "the newest good one%s: %s\n", ofSite(site, sites), url)
		case len(sites) > 1:
			fmt.Fprintf(&out, "of %s none that was looked at is good and of a known age: name its folder to see more\n", site)
		}
	}
	return out.String()
}

// others returns the newest good backup of each other life of a site. A restore begins another life,
// which sends to the same folder, and a trial beside a living site does so, too.
func (l placeList) others() []atPlace {
	type life struct {
		site string
		etcd state.MemberID
	}
	var out []atPlace
	seen := map[life]bool{}
	for _, b := range l.Backups {
		is := life{b.Site, b.Cluster}
		if !b.counts() || seen[is] {
			continue
		}
		if seen[is] = true; b.URL != l.NewestOf[b.Site] {
			out = append(out, b)
		}
	}
	return out
}

func (l placeList) print(out io.Writer, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := "BACKUP\tSITE\tAGE\tGOOD\tSIZE\tREASON"
	if wide {
		head += "\tURL\tWHY NOT"
	}
	_, _ = fmt.Fprintln(w, head)
	for _, b := range l.Backups {
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", b.ID, orDash(b.Site), ageOf(b.Taken, time.Now()), yesNo(b.Good), bytesOf(b.Size), orDash(b.Reason))
		if wide {
			line += fmt.Sprintf("\t%s\t%s", b.URL, orDash(b.Why))
		}
		_, _ = fmt.Fprintln(w, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range l.others() {
		_, _ = fmt.Fprintf(out, "of another etcd, from before a restore, or beside a trial of one: %s\n", b.URL)
	}
	return nil
}

// ageOf formats the age of a backup.
func ageOf(taken, now time.Time) string {
	switch {
	case taken.IsZero():
		return "-"
	case model.Ahead(taken, now):
		return "future"
	}
	return page.Duration(max(now.Sub(taken), 0))
}

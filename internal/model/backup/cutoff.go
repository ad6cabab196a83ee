package backup

import (
	"path"
	"slices"
	"strings"
)

// CutOff finds what copies that were cut off have left in a host's folder at a target, before the
// host sends a backup there: half files, and archives without an entry of which the host has the
// original. An archive that the host does not have stays, because the host may be a new one of the
// same name, and a person may still want to open it.
func CutOff(files map[string]int64, sending Entry, target string, have []Entry) []string {
	folder := path.Dir(SentName(sending.Site, sending.Host, sending.ID))
	var out []string
	for name := range files {
		whole, isHalf := strings.CutSuffix(name, HalfSuffix)
		id, isArchive := strings.CutSuffix(path.Base(whole), SentSuffix)
		isEntry := false
		if !isArchive {
			id, isEntry = strings.CutSuffix(path.Base(whole), SentEntrySuffix)
		}
		switch {
		case path.Dir(name) != folder, !isArchive && !isEntry, !ValidID(id):
		case isHalf:
			out = append(out, name)
		case isArchive && id != sending.ID && unsent(files, name) && slices.ContainsFunc(have, func(e Entry) bool {
			return e.ID == id && e.Site == sending.Site && e.Host == sending.Host && e.Good && !e.Has(target)
		}):
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// unsent reports whether an archive lacks its entry.
func unsent(files map[string]int64, archive string) bool {
	_, there := files[EntryOf(archive)]
	return !there
}

package backup

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// Place is a backup, or a folder with backups, at a target.
type Place struct {
	Target Target
	// Name is below the target's own path or prefix; empty for all of it.
	Name string
	// URL is what a person typed; it holds no secret.
	URL string
}

// IsURL reports whether a text names a place at a target that is no folder of this machine.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "s3://") || strings.HasPrefix(text, "sftp://")
}

// Variables of the environment that give the account of a bucket, as other programs read them.
const (
	envAccessKey = "AWS_ACCESS_KEY_ID"
	envSecretKey = "AWS_SECRET_ACCESS_KEY"
	envSession   = "AWS_SESSION_TOKEN"
	envEndpoint  = "AWS_ENDPOINT_URL"
	envRegion    = "AWS_REGION"
)

// PlaceVariables lists the variables that PlaceOf asks for.
func PlaceVariables() []string {
	return []string{envAccessKey, envSecretKey, envSession, envEndpoint, envRegion}
}

// PlaceOf reads a URL of the form s3://BUCKET/NAME or sftp://USER@SERVER/PATH, and finds its
// account: in one of the targets or, for a bucket without a target, in variables. It returns all
// mistakes, without secrets.
func PlaceOf(text string, targets []Target, variable func(string) string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Place{}, errors.New("the URL is not readable") // the error would quote a password
	}
	if err := strange(u); err != nil {
		return Place{}, err
	}
	server := u.Scheme + "://" + u.Host + "/"
	if u.User != nil {
		server = u.Scheme + "://" + u.User.Username() + "@" + u.Host + "/"
	}
	p := Place{URL: server + strings.Trim(u.Path, "/")}
	found := targetsAt(u, targets)
	switch {
	case len(found) == 1:
		p.Target, p.Name = found[0], below(base(found[0]), u.Path)
		p.URL = server + path.Join(base(found[0]), p.Name) // a URL above a target means all of it
		return p, nil
	case len(found) > 1:
		return Place{}, fmt.Errorf("the targets %s and %s of the configuration fit %s: leave one of them in a copy of the file, and give that", found[0].Name, found[1].Name, p.URL)
	case u.Scheme == "sftp":
		return Place{}, fmt.Errorf("no target of the configuration of backups is %s: give the file with its account and host key, --targets FILE", p.URL)
	}
	p.Name = strings.Trim(u.Path, "/")
	p.Target, err = fromVariables(u.Host, variable, len(targets) > 0)
	return p, err
}

// strange refuses what no URL of a place has.
func strange(u *url.URL) error {
	var errs []error
	if u.User != nil {
		if _, password := u.User.Password(); password {
			errs = append(errs, errors.New("the URL holds a password, which other accounts of this machine can read in the list of processes: change it, and give it in a file, --targets FILE"))
		} else if u.Scheme == "s3" {
			errs = append(errs, errors.New("a URL of a bucket has no account: give it in a file, --targets FILE, or in "+envAccessKey+" and "+envSecretKey))
		}
	}
	if u.Host == "" {
		errs = append(errs, errors.New("the URL must be s3://BUCKET/NAME or sftp://USER@SERVER/PATH"))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		errs = append(errs, errors.New("the URL must have no ? and no #"))
	}
	if u.Path != "" && strings.TrimSuffix(u.Path, "/") != strings.TrimSuffix(path.Clean(u.Path), "/") {
		errs = append(errs, errors.New("the path of the URL must have no part . or .. in it"))
	}
	return errors.Join(errs...)
}

// targetsAt returns the targets that a URL may mean: those with the longest path of their own that
// holds it, else those below it.
func targetsAt(u *url.URL, targets []Target) []Target {
	var out []Target
	longest := -2
	for _, t := range targets {
		if !t.at(u) || below(base(t), u.Path) == outside {
			continue
		}
		n := len(base(t))
		if n > len(strings.Trim(u.Path, "/")) {
			n = -1 // it is below the URL
		}
		if n > longest {
			out, longest = nil, n
		}
		if n == longest {
			out = append(out, t)
		}
	}
	return out
}

// at reports whether a target is at the server or the bucket of a URL.
func (t Target) at(u *url.URL) bool {
	switch {
	case u.Scheme == "s3":
		return t.S3 != nil && t.S3.Bucket == u.Host
	case t.SFTP == nil:
		return false
	}
	have, err := t.SFTP.Address()
	want, wrong := SFTP{Server: u.Host}.Address()
	return err == nil && wrong == nil && have == want && (u.User == nil || u.User.Username() == t.SFTP.User)
}

// base returns the path of a target's own, without slashes around it.
func base(t Target) string {
	if t.S3 != nil {
		return strings.Trim(t.S3.Prefix, "/")
	}
	return strings.Trim(t.SFTP.Path, "/")
}

// outside is what below returns for a path that is not below another one. No name is like it.
const outside = "/"

// below returns the rest of a path below a base. A path above the base stands for all of it.
func below(base, of string) string {
	of = strings.Trim(of, "/")
	switch rest, is := strings.CutPrefix(of+"/", base+"/"); {
	case base == "":
		return of
	case is:
		return strings.Trim(rest, "/")
	case of == "" || strings.HasPrefix(base+"/", of+"/"):
		return ""
	}
	return outside
}

// fromVariables returns a bucket with the account of the environment.
func fromVariables(bucket string, variable func(string) string, file bool) (Target, error) {
	t := Target{Name: "environment", S3: &S3{
		Endpoint: variable(envEndpoint), Bucket: bucket, Region: variable(envRegion), AccessKey: variable(envAccessKey), SecretKey: secret.Text(variable(envSecretKey)),
	}}
	mistakes := t.S3.mistakes(field.NewPath("s3"))
	if variable(envSession) == "" && len(mistakes) == 0 {
		return t, nil
	}
	var errs []error
	if file {
		errs = append(errs, fmt.Errorf("no target of the configuration of backups has the bucket %s", bucket))
	} else {
		errs = append(errs, fmt.Errorf("the account of the bucket %s is not known: give the configuration of backups, --targets FILE, or set %s, %s and %s", bucket, envEndpoint, envAccessKey, envSecretKey))
	}
	for _, m := range mistakes {
		switch of := variableOf(m.Field); {
		case of == "":
			errs = append(errs, m)
		case variable(of) != "":
			errs = append(errs, fmt.Errorf("%s: %w", of, m))
		}
	}
	if variable(envSession) != "" {
		errs = append(errs, errors.New(envSession+" is set: accounts for a time are not supported; give one that lasts"))
	}
	return Target{}, errors.Join(errs...)
}

// variableOf returns the variable of a field of a bucket.
func variableOf(name string) string {
	return map[string]string{"s3.endpoint": envEndpoint, "s3.accessKey": envAccessKey, "s3.secretKey": envSecretKey}[name]
}

// Sent is the archive of a backup at a target, or in the folder of a host.
type Sent struct {
	ID string `json:"id"`
	// Archive and Entry are the names of its files. Without an entry it was not sent to its end.
	Archive string `json:"archive"`
	Entry   string `json:"entry,omitempty"`
	Size    int64  `json:"size"`
}

// SentOf finds archives of backups among the files of a target, the newest first.
func SentOf(files map[string]int64) []Sent {
	var out []Sent
	for name, size := range files {
		id := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), SentSuffix), ArchiveSuffix)
		if !IsArchive(name) || !ValidID(id) {
			continue
		}
		entry := EntryOf(name)
		if _, there := files[entry]; !there {
			entry = ""
		}
		out = append(out, Sent{ID: id, Archive: name, Entry: entry, Size: size})
	}
	slices.SortFunc(out, func(a, b Sent) int {
		if c := strings.Compare(b.ID, a.ID); c != 0 {
			return c
		}
		return strings.Compare(a.Archive, b.Archive)
	})
	return out
}

// IsArchive reports whether a name is that of an archive, and not of a folder.
func IsArchive(name string) bool {
	return strings.HasSuffix(name, SentSuffix) || strings.HasSuffix(name, ArchiveSuffix)
}

// EntryOf returns the name of the entry beside an archive.
func EntryOf(archive string) string {
	if before, sent := strings.CutSuffix(archive, SentSuffix); sent {
		return before + SentEntrySuffix
	}
	return path.Join(path.Dir(archive), EntryName)
}

// FileAs returns the file that an entry beside an archive describes. At a target it is that of the
// last copy, because a host writes the entry right after the copy to that target.
func (e Entry) FileAs(archive string) (File, bool) {
	if !strings.HasSuffix(archive, SentSuffix) {
		return e.File, e.File.SHA256 != ""
	}
	if len(e.Copies) == 0 || e.Copies[len(e.Copies)-1].Verified.IsZero() {
		return File{}, false
	}
	return e.Copies[len(e.Copies)-1].File, true
}

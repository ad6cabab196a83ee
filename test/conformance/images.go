package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Components that supply programs for the images, besides those of a release.
const (
	programs = "kubernetes-test-images"
	suite    = "kubernetes-tests"
	names    = "kubernetes-image-names"
)

// module is the directory that builds the tests and their programs, source the
// module that they come from.
const (
	module = "test/conformance/programs"
	source = "k8s.io/kubernetes"
)

// Components returns the components that are built for the tests: the tests
// with their runner, the program that knows the names of their images, and the
// programs in these images.
func Components() []payload.Component {
	stamp := release("kubernetes").Stamp
	of := func(name string, binaries ...payload.Binary) payload.Component {
		return payload.Component{
			Name: name, Version: payload.KubernetesVersion, Source: source, Dir: module, Stamp: stamp, Binaries: binaries,
		}
	}
	return []payload.Component{
		of(suite, payload.Binary{Name: "ginkgo", Package: "github.com/onsi/ginkgo/v2/ginkgo"},
			payload.Binary{Name: "e2e.test", Package: source + "/test/e2e", Test: true}),
		of(names, payload.Binary{Name: "imagenames", Package: "./imagenames"}),
		of(programs, payload.Binary{Name: "agnhost", Package: source + "/test/images/agnhost"},
			payload.Binary{Name: "nonewprivs", Package: source + "/test/images/nonewprivs"},
			payload.Binary{Name: "sample-apiserver", Package: "k8s.io/sample-apiserver"}),
	}
}

// release returns a component of a release. A missing one is a mistake in this
// program.
func release(name string) payload.Component {
	for _, c := range payload.Components() {
		if c.Name == name {
			return c
		}
	}
	panic("conformance: a release has no component " + name)
}

// ownRegistry is the registry that the tests' images get instead of upstream's
// registries. It is not a host: nothing is pulled from it.
const ownRegistry = payload.Registry + "/conformance"

// registries returns the file that gives the tests this registry.
func registries() []byte {
	var b strings.Builder
	for _, key := range []string{
		"promoterE2eRegistry", "buildImageRegistry", "gcEtcdRegistry", "gcRegistry", "sigStorageRegistry",
		"dockerLibraryRegistry", "cloudProviderGcpRegistry", "privateRegistry", "invalidRegistry",
	} {
		fmt.Fprintf(&b, "%s: %s\n", key, ownRegistry)
	}
	return []byte(b.String())
}

// upstreamFiles maps paths in the images to the files of the module that they
// hold.
var upstreamFiles = map[string]map[string]string{
	"agnhost": {"/localhost.crt": "agnhost/porter/localhost.crt", "/localhost.key": "agnhost/porter/localhost.key"},
	"kitten":  {"/kitten.jpg": "kitten/html/kitten.jpg", "/data.json": "kitten/html/data.json"},
	"nautilus": {
		"/nautilus.jpg": "nautilus/html/nautilus.jpg", "/data.json": "nautilus/html/data.json",
	},
}

// Images returns the images that the tests run, under the names that the tests
// use. read returns a file of the module's folder of images.
func Images(known map[string]string, read func(path string) ([]byte, error)) ([]payload.ImageSpec, error) {
	var out []payload.ImageSpec
	for _, id := range slices.Sorted(maps.Keys(known)) {
		spec, files, err := made(id)
		if err != nil {
			return nil, err
		}
		if err := name(&spec, known[id]); err != nil {
			return nil, fmt.Errorf("image %s: %w", id, err)
		}
		for _, set := range files {
			for _, path := range slices.Sorted(maps.Keys(upstreamFiles[set])) {
				data, err := read(upstreamFiles[set][path])
				if err != nil {
					return nil, fmt.Errorf("image %s: %w", id, err)
				}
				spec.Extra = append(spec.Extra, payload.ExtraFile{Path: path, Content: data})
			}
		}
		// This makes each image different: if one image had two names, a host
		// would report either.
		spec.Extra = append(spec.Extra, text("/etc/os-release", "NAME=\""+known[id]+"\"\n"))
		out = append(out, spec)
	}
	return out, nil
}

// asked matches the name of an image in a spec.
var asked = regexp.MustCompile(`\bimageutils\.([A-Z][A-Za-z0-9]+)\b`)

// unneeded lists images of specs that stand beside Conformance specs but are
// none: they pull from registries.
var unneeded = []string{"AgnhostPrivate", "InvalidRegistryImage"}

// Asked returns the images that the text of specs names, sorted.
func Asked(text string) []string {
	var out []string
	for _, m := range asked.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "Get") && !slices.Contains(unneeded, m[1]) { // a name with Get is a function
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// name gives an image the name, REGISTRY/NAME:TAG, that tests ask for.
func name(spec *payload.ImageSpec, ref string) error {
	rest, ok := strings.CutPrefix(ref, payload.Registry+"/")
	if !ok {
		return fmt.Errorf("its name is %s, want one of the registry %s", ref, payload.Registry)
	}
	spec.Name, spec.Tag, ok = strings.Cut(rest, ":")
	if !ok {
		return fmt.Errorf("its name %s has no tag", ref)
	}
	return nil
}

// made returns an image without its name, and the names of its sets of upstream
// files.
func made(id string) (payload.ImageSpec, []string, error) {
	spec := userland()
	switch id {
	case "Agnhost", "AgnhostPrev":
		return agnhost(spec, "pause"), []string{"agnhost"}, nil
	case "Kitten":
		return agnhost(spec, "test-webserver"), []string{"kitten"}, nil
	case "Nautilus":
		return agnhost(spec, "test-webserver"), []string{"nautilus"}, nil
	case "BusyBox", "GlibcDnsTesting":
		spec.Cmd = []string{"sh"}
	case "NonRoot":
		spec.Cmd, spec.User = []string{"sh"}, "1234"
	case "Nginx", "NginxNew":
		spec = nginx(spec)
	case "Nonewprivs":
		spec.Files = []payload.ImageFile{{Component: programs, Binary: "nonewprivs", Path: "/usr/local/bin/nnp", Setuid: true}}
		spec.Cmd = []string{"nnp"}
	case "APIServer":
		spec = payload.ImageSpec{
			Files:      []payload.ImageFile{{Component: programs, Binary: "sample-apiserver", Path: "/sample-apiserver"}},
			Entrypoint: []string{"/sample-apiserver"},
		}
	case "Etcd":
		// It stores the data of the sample API server, for which any version
		// will do.
		spec = payload.ImageSpec{Files: []payload.ImageFile{{Component: "etcd", Binary: "etcd", Path: "/usr/local/bin/etcd"}}}
	case "Pause":
		spec = payload.ImageSpec{
			Files:      []payload.ImageFile{{Component: "pause", Binary: "pause", Path: "/pause"}},
			Entrypoint: []string{"/pause"},
		}
	default:
		return spec, nil, fmt.Errorf("the tests want an image %s, and nothing here says how it is made", id)
	}
	return spec, nil, nil
}

// agnhost is the program that most tests run. first is the default one of its
// many functions.
func agnhost(spec payload.ImageSpec, first string) payload.ImageSpec {
	spec.Files = []payload.ImageFile{{Component: programs, Binary: "agnhost", Path: "/agnhost"}}
	spec.Entrypoint, spec.Cmd = []string{"/agnhost"}, []string{first}
	spec.Extra = append(spec.Extra,
		payload.ExtraFile{Path: "/agnhost-2", Link: "agnhost"}, text("/uploads/.keep", ""),
		// A test needs this user, and the group that the image gives it.
		text("/etc/passwd", users+"user-defined-in-image:x:1000:1000::/:/bin/sh\n"),
		text("/etc/group", groups+"user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"))
	return spec
}

func nginx(spec payload.ImageSpec) payload.ImageSpec {
	spec.Cmd = []string{"nginx", "-g", "daemon off;"}
	spec.Extra = append(spec.Extra, text("/etc/nginx/nginx.conf", nginxConf),
		text("/usr/share/nginx/html/index.html", "<h1>Welcome to nginx!</h1>\n"),
		text("/var/log/nginx/.keep", ""), text("/var/lib/nginx/.keep", ""))
	return spec
}

const nginxConf = `user root;
pid /run/nginx.pid;
error_log /dev/stderr;
events {}
http {
  include /etc/nginx/mime.types;
  access_log /dev/stdout;
  server {
    listen 80;
    listen [::]:80;
    root /usr/share/nginx/html;
  }
}
`

const (
	users  = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
	groups = "root:x:0:\nnogroup:x:65534:\n"
)

// userland is an image with the tools that tests call: BusyBox for most, and
// real tools where BusyBox differs. All images have the same ones, so that
// hosts store them once.
func userland() payload.ImageSpec {
	// Debian's BusyBox runs its applets even if another tool is installed, and its
	// env leaves out variables that no shell can name, of which specs have some.
	links := map[string]string{"/usr/bin/sh": "bash", "/usr/bin/nc": "nc.openbsd"}
	for applet := range strings.FieldsSeq(applets) {
		links["/usr/bin/"+applet] = "busybox"
	}
	return payload.ImageSpec{
		Packages: []string{
			"bash", "bind9-dnsutils", "busybox-static", "curl", "iproute2", "libc-bin", "netcat-openbsd", "nginx",
		},
		Keep: []string{
			"/etc/nginx/mime.types", "/usr/bin/bash", "/usr/bin/busybox", "/usr/bin/curl", "/usr/bin/dig",
			"/usr/bin/getent", "/usr/bin/ip", "/usr/bin/nc.openbsd", "/usr/bin/ss", "/usr/sbin/nginx",
		},
		Links: links,
		Extra: []payload.ExtraFile{
			text("/etc/passwd", users), text("/etc/group", groups),
			text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
		},
	}
}

// applets lists the applets of Debian's BusyBox that a test may call.
const applets = `[ [[ arch arping ash awk base64 basename bunzip2 bzcat cat chgrp chmod chown chroot clear cmp cp cut date dd df
diff dirname dmesg dnsdomainname du echo egrep env expand expr factor fallocate false fgrep find fold free getopt grep groups
gunzip gzip head hexdump hostid hostname httpd id ifconfig kill killall last less ln logger login logname ls lsmod md5sum mkdir
mkfifo mknod mktemp more mount mv netstat nl nproc nslookup od paste patch pidof ping ping6 printf ps pwd readlink realpath
renice reset rev rm rmdir route sed seq setsid sha1sum sha256sum sha512sum shred shuf sleep sort stat strings stty su sync
sysctl tac tail tar tee telnet test tftp time timeout top touch tr traceroute true truncate tty umount uname unexpand uniq unlink
uptime usleep vi watch wc wget which who whoami xargs xxd yes zcat`

func text(path, content string) payload.ExtraFile {
	return payload.ExtraFile{Path: path, Content: []byte(content)}
}

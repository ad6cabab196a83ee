package apply

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzAccounts parses arbitrary /etc/passwd, shadow and group files.
func FuzzAccounts(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000::/home/core:/bin/bash\n", "core:!:19000::::::\n", "sudo:x:27:core,root\n")
	f.Add(":::::::\n", ":\n", "a:b:c:,,\n")
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, passwd, shadow, group string) {
		for name, text := range map[string]string{"passwd": passwd, "shadow": shadow, "group": group} {
			if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := &Host{Root: root}
		users, _, err := h.accounts()
		if err != nil {
			t.Fatal(err)
		}
		for name, u := range users {
			if u.UID < -1 && name == "" {
				t.Errorf("%+v", u)
			}
		}
	})
}

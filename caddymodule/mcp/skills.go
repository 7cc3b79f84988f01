package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// SkillDirectory is a directory of Agent Skills.
type SkillDirectory struct {
	// The path of the directory. The skill in its folder acme/refunds has the URI
	// skill://acme/refunds/SKILL.md. Placeholders such as {env.SKILLS} are replaced. Required.
	Path string `json:"path"`

	// Scopes that an access token needs to see the skills and to read their files. Other callers are
	// refused, and do not see the skills in the lists. Default: none; all callers may read them.
	Scopes []string `json:"scopes,omitempty"`
}

// readSkills reads the arguments and the block of skills.
func readSkills(b *directive.Block, all *[]SkillDirectory) error {
	var s SkillDirectory
	if !b.AllArgs(&s.Path) {
		return b.Err("skills needs the directory that has the folders of the skills, as in: skills ./skills")
	}
	if slices.ContainsFunc(*all, func(other SkillDirectory) bool { return other.Path == s.Path }) {
		return b.Errf("skills %s is given twice", s.Path)
	}
	inner := directive.NewBlock(b.Dispenser)
	if err := inner.Read("skills", directive.Options{"scopes": directive.To(inner.List, &s.Scopes)}); err != nil {
		return err
	}
	*all = append(*all, s)
	return nil
}

// watchedSkills is a directory of skills with its place in the options of the library.
type watchedSkills struct {
	skills.Directory
	failed string // the error that was logged last, until the next success
}

// openSkills reads the skills of all directories.
func (k *libraryWatcher) openSkills(directories []SkillDirectory) error {
	for _, from := range directories {
		d := &watchedSkills{Directory: skills.Directory{Path: caddy.NewReplacer().ReplaceAll(from.Path, "")}}
		set, _, err := d.Read()
		if err == nil && len(set.Skills) == 0 {
			err = errors.New("no folder in it has a file " + skills.FileName)
		}
		if err != nil {
			return fmt.Errorf("skills %s: %w", from.Path, err)
		}
		k.skills = append(k.skills, d)
		k.options.Skills = append(k.options.Skills, library.Skills{Set: set, Scopes: from.Scopes})
	}
	return nil
}

// reloadSkills reads the skills of directories that have changed. An error is logged once.
func (k *libraryWatcher) reloadSkills() {
	for i, d := range k.skills {
		set, changed, err := d.Read()
		if changed {
			previous := k.options.Skills
			k.options.Skills = slices.Clone(previous)
			k.options.Skills[i].Set = set
			if err = k.publish(); err != nil {
				k.options.Skills = previous
				d.Directory = skills.Directory{Path: d.Path} // read it again: it may fit when another directory changes
			}
		}
		switch {
		case err != nil && err.Error() != d.failed:
			d.failed = err.Error()
			k.logger.Error("loading the skills failed; the previous skills stay in use", zap.String("directory", d.Path), zap.Error(err))
		case err != nil:
		case changed:
			k.logger.Info("loaded skills", zap.String("directory", d.Path), zap.Int("skills", len(set.Skills)))
			k.server.Notify(mcpadapter.ResourcesChanged)
		}
		if err == nil {
			d.failed = ""
		}
	}
}

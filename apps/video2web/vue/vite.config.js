import { readFileSync, readdirSync } from 'node:fs'
import vue from '@vitejs/plugin-vue'
import { defineConfig } from 'vite'

const bundle = 'vue-app.js'
const module = 'type="module" src="./src/main.js"'

// Browsers load no modules from disk: the whole site is one classic script, and each page here comes out naming it.
const writePages = () => ({
  name: 'write-pages',
  apply: 'build',
  generateBundle() {
    for (const page of readdirSync('.').filter((name) => name.endsWith('.html'))) {
      const source = readFileSync(page, 'utf-8').replace(module, `defer src="${bundle}"`)
      this.emitFile({ type: 'asset', fileName: page, source })
    }
  },
})

export default defineConfig({
  base: './',
  define: { __VUE_OPTIONS_API__: false, __VUE_PROD_DEVTOOLS__: false },
  plugins: [
    vue({
      template: {
        transformAssetUrls: false, // images and styles lie in public/, under the names that the pages call them by
        compilerOptions: { whitespace: 'preserve', isCustomElement: (tag) => tag.includes('-') },
      },
    }),
    writePages(),
  ],
  build: { rollupOptions: { input: 'src/main.js', output: { format: 'iife', entryFileNames: bundle } } },
})
